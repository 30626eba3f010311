#include "outbox/transaction.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "base/bounded.h"
#include "base/mutex.h"
#include "base/quote.h"
#include "base/thread.h"
#include "engine/poller.h"
#include "engine/transaction.h"
#include "model/outcome.h"
#include "outbox/error.h"
#include "outbox/writer.h"

namespace outbox {
namespace internal {

// The open transactions that one thread began: mostly one for each writer, so a few.
// Shared, because a transaction may be ended by another thread, even after that
// one has ended.
class OpenTransactions {
 public:
  void add(TransactionState* state) {
    MutexLock lock(mutex_);
    states_.push_back(state);
  }
  void remove(TransactionState* state) {
    MutexLock lock(mutex_);
    std::erase(states_, state);
  }
  // The newest, which is the innermost.
  TransactionState* find(const Writer& writer) const {
    MutexLock lock(mutex_);
    const auto found = std::find_if(states_.rbegin(), states_.rend(), [&](TransactionState* state) {
      return &state->writer() == &writer;
    });
    return found == states_.rend() ? nullptr : *found;
  }

 private:
  mutable Mutex mutex_;
  std::vector<TransactionState*> states_ OUTBOX_GUARDED_BY(mutex_);
};

namespace {

struct OpenHere {
  const std::shared_ptr<OpenTransactions> transactions = std::make_shared<OpenTransactions>();
};

std::string savepoint_name(std::size_t depth) { return "outbox_" + std::to_string(depth); }

}  // namespace

void call_hooks(std::span<const std::shared_ptr<WriterHook>> hooks, const Logger& log,
                void (WriterHook::*member)(std::span<const Written>),
                const std::vector<Written>& events) {
  if (events.empty()) return;
  for (const auto& hook : hooks) {
    try {
      ((*hook).*member)(events);
    } catch (...) {
      const std::string error = outcome_of(std::current_exception()).error();
      log({LogLevel::error,
           "writer_hook_failed",
           "a writer hook failed: " + error,
           {{"error", error}}});
    }
  }
}

// --- An open transaction ---

TransactionState::TransactionState(Writer& writer, std::unique_ptr<Connection> connection)
    : writer_(writer),
      connection_(std::move(connection)),
      open_(per_thread<OpenHere>().transactions) {
  connection_->begin();
  open_->add(this);
}

TransactionState::~TransactionState() {
  if (over_) return;
  try {
    undo_all();
  } catch (const std::exception& error) {
    writer_.options_.log(
        {LogLevel::warning,
         "rollback_failed",
         std::string("a transaction could not be rolled back cleanly: ") + error.what(),
         {{"error", error.what()}}});
  }
}

TransactionState* TransactionState::find(const Writer& writer) {
  return per_thread<OpenHere>().transactions->find(writer);
}

void TransactionState::check_usable() const {
  if (over_) throw MisuseError("this transaction is over: begin a new one");
}

Connection& TransactionState::connection() {
  check_usable();
  return *connection_;
}

void TransactionState::detach() {
  check_usable();
  open_->remove(this);
}

std::size_t TransactionState::savepoint() {
  check_usable();
  const std::size_t depth = levels_.size();
  connection_->savepoint(savepoint_name(depth));
  levels_.emplace_back();
  return depth;
}

void TransactionState::release(std::size_t depth) {
  check_usable();
  connection_->release(savepoint_name(depth));
  Level& outer = levels_[depth - 1];
  for (std::size_t i = depth; i < levels_.size(); ++i) {
    const auto append = [](auto& to, auto& from) {
      to.insert(to.end(), std::move_iterator(from.begin()), std::move_iterator(from.end()));
    };
    append(outer.after_commit, levels_[i].after_commit);
    append(outer.after_rollback, levels_[i].after_rollback);
    append(outer.events, levels_[i].events);
  }
  levels_.resize(depth);
}

void TransactionState::rollback_to(std::size_t depth) {
  check_usable();
  connection_->rollback_to(savepoint_name(depth));
  connection_->release(savepoint_name(depth));
  std::vector<Level> undone(
      std::move_iterator(levels_.begin() + static_cast<std::ptrdiff_t>(depth)),
      std::move_iterator(levels_.end()));
  levels_.resize(depth);
  for (Level& level : undone) undo(std::move(level));
}

void TransactionState::after_commit(std::function<void()> callback) {
  check_usable();
  levels_.back().after_commit.push_back(std::move(callback));
}

void TransactionState::after_rollback(std::function<void()> callback) {
  check_usable();
  levels_.back().after_rollback.push_back(std::move(callback));
}

void TransactionState::wrote(std::vector<Written> events) {
  auto& all = levels_.back().events;
  all.insert(all.end(), std::move_iterator(events.begin()), std::move_iterator(events.end()));
}

void TransactionState::commit() {
  check_usable();
  if (levels_.size() > 1) {
    throw MisuseError("a savepoint is still open: release it or roll it back before the commit");
  }
  over_ = true;
  open_->remove(this);
  const WriterOptions& options = writer_.options_;
  try {
    connection_->commit();
  } catch (const OutcomeUnknownError&) {
    call_hooks(options.hooks, options.log, &WriterHook::outcome_unknown, levels_.front().events);
    throw;
  } catch (...) {
    connection_.reset();  // the callbacks may want one of their own
    undo(std::move(levels_.front()));
    throw;
  }
  assign_row_refs();
  connection_.reset();  // the callbacks may want one of their own
  call_hooks(options.hooks, options.log, &WriterHook::after_commit, levels_.front().events);
  run(levels_.front().after_commit, "after-commit");
}

// Of events whose insert was deferred to the commit.
void TransactionState::assign_row_refs() {
  const std::vector<RowRef> rows = connection_->deferred_rows();
  auto next = rows.begin();
  for (Written& written : levels_.front().events) {
    if (next == rows.end()) return;
    if (written.row.seq == 0) written.row = *next++;
  }
}

void TransactionState::rollback() {
  check_usable();
  undo_all();
}

void TransactionState::undo_all() {
  over_ = true;
  open_->remove(this);
  // Even if the rollback fails: what was not committed is undone by the database.
  std::exception_ptr failure;
  try {
    connection_->rollback();
  } catch (...) {
    failure = std::current_exception();
  }
  connection_.reset();
  for (Level& level : levels_) undo(std::move(level));
  if (failure) std::rethrow_exception(failure);
}

void TransactionState::undo(Level level) {
  const WriterOptions& options = writer_.options_;
  call_hooks(options.hooks, options.log, &WriterHook::after_rollback, level.events);
  run(level.after_rollback, "after-rollback");
}

void TransactionState::run(const std::vector<std::function<void()>>& callbacks,
                           const char* when) const {
  for (const auto& callback : callbacks) {
    try {
      callback();
    } catch (...) {
      const std::string error = outcome_of(std::current_exception()).error();
      writer_.options_.log({LogLevel::error,
                            "callback_failed",
                            std::string("an ") + when + " callback failed: " + error,
                            {{"callback", when}, {"error", error}}});
    }
  }
}

// --- What a commit sets off ---

CommitHook::CommitHook(std::shared_ptr<Engine> engine, std::function<void()> wake)
    : engine_(std::move(engine)),
      wake_(std::move(wake)),
      direct_(engine_->direct_path()),
      clock_(engine_->clock()),
      log_(engine_->log()) {}

// Delayed events take no hot path; neither do those on a user's own connection,
// of whose end we may never hear: a reservation would keep them for ever.
bool CommitHook::takes(const Written& written) const {
  if (direct_ == Engine::Direct::none || written.own_connection || written.row.hold != 0)
    return false;
  return direct_ == Engine::Direct::all || written.claimed;
}

void CommitHook::after_write(std::span<const Written> events) {
  for (const Written& written : events) {
    if (takes(written) && !engine_->reserve(written.event)) refuse(written.event);
  }
}

void CommitHook::after_commit(std::span<const Written> events) {
  bool read = false;
  bool left = false;  // to a reader that is woken by it, if it is the engine's own
  std::vector<Clock::Steady> rows_due;
  for (const Written& written : events) {
    if (written.row.hold < 0) {
      engine_->count(Counter::hot_skipped_delayed);
      rows_due.push_back(due(written));
    } else if (!takes(written)) {
      read = true;
    } else if (was_refused(written.event)) {
      read_left_behind(written);
      read = true;
    } else if (!engine_->takes_commits() ||
               !engine_->enqueue_reserved({.ref = written.row, .event = written.event})) {
      leave_to_reader(written);
      left = true;
    }
  }
  if (!engine_->takes_commits()) return;
  if (Poller* poller = engine_->poller(); poller != nullptr) {
    if (!rows_due.empty()) poller->rows_due(rows_due);
    if (read) poller->wake();
  } else if (wake_ && (read || left || !rows_due.empty())) {
    wake_();
  }
}

void CommitHook::after_rollback(std::span<const Written> events) {
  for (const Written& written : events) {
    if (takes(written) && !was_refused(written.event)) engine_->give_up(written.event);
  }
}

void CommitHook::outcome_unknown(std::span<const Written> events) {
  for (const Written& written : events) {
    if (!takes(written)) continue;
    if (was_refused(written.event)) {
      read_left_behind(written);
    } else {
      engine_->leave_to_reader(written.event, written.row);
    }
  }
  if (!engine_->takes_commits()) return;
  if (Poller* poller = engine_->poller(); poller != nullptr) {
    poller->look_everywhere();
  } else if (wake_) {
    wake_();
  }
}

void CommitHook::leave_to_reader(const Written& written) {
  if (!engine_->takes_commits()) {
    // Nobody reads here: an order to the reader would be kept for ever.
    engine_->give_up(written.event);
    if (engine_->closing()) engine_->count(Counter::hot_dropped);
    return;
  }
  engine_->leave_to_reader(written.event, written.row);
  if (!engine_->direct(written.row.shard)) return;  // nobody takes events here now
  engine_->count(Counter::hot_dropped);
  if (!warnings_.allow(clock_.steady())) return;
  const std::uint64_t suppressed = warnings_.take_suppressed();
  log_({LogLevel::warning,
        "hot_queue_full",
        "the hot queue is full: event " + written.event.id() + " is left to the poller, as were " +
            std::to_string(suppressed) +
            " others since the last such message; listeners are slower than writers (see "
            "hot_capacity and workers)",
        {{"event", written.event.id()}, {"suppressed", suppressed}}});
}

void CommitHook::read_left_behind(const Written& written) {
  if (Poller* poller = engine_->poller(); poller != nullptr) poller->leave_behind(written.row);
}

// An event of the same id is in flight: it was written before, delivered, and removed.
void CommitHook::refuse(const Event& event) {
  MutexLock lock(mutex_);
  refused_.insert(event.id());
  any_refused_ = true;
}

bool CommitHook::was_refused(const Event& event) {
  if (!any_refused_) return false;
  MutexLock lock(mutex_);
  const bool refused = refused_.erase(event.id()) > 0;
  any_refused_ = !refused_.empty();
  return refused;
}

// Never too early: a claim that finds nothing does not say when to look again.
Clock::Steady CommitHook::due(const Written& written) const {
  if (written.event.delay()) return written.inserted_at + bounded(*written.event.delay());
  const Time now = clock_.now();  // before the other clock: a pause between the two delays
  return clock_.steady() + bounded(written.event.available_at() - now);
}

}  // namespace internal

// --- Writer ---

namespace {

WriterOptions checked(WriterOptions options) {
  for (const auto& hook : options.hooks) {
    if (!hook) throw MisuseError("writer: a hook is null");
  }
  if (!options.log) options.log = standard_error_log();
  return options;
}

std::shared_ptr<Store> not_null(std::shared_ptr<Store> store) {
  if (!store) throw MisuseError("writer: the store is null");
  return store;
}

std::vector<Draft> only(Draft draft) {
  std::vector<Draft> drafts;
  drafts.push_back(std::move(draft));
  return drafts;
}

std::vector<std::string> ids_of(std::span<const Written> events) {
  std::vector<std::string> ids;
  ids.reserve(events.size());
  for (const Written& written : events) ids.push_back(written.event.id());
  return ids;
}

}  // namespace

Writer::Writer(std::shared_ptr<Store> store, WriterOptions options)
    : store_(not_null(std::move(store))),
      clock_(store_->clock()),
      options_(checked(std::move(options))),
      pid_(getpid()) {}

Writer::~Writer() = default;

Transaction Writer::begin() {
  check_process();
  if (in_transaction()) {
    throw MisuseError(
        "this thread has an open transaction of this writer already: commit it or roll it back "
        "first, or use a savepoint");
  }
  return Transaction(std::make_unique<internal::TransactionState>(*this, store_->connect()));
}

Transaction Writer::begin_new() {
  check_process();
  if (in_transaction() && store_->capabilities().one_writer) {
    throw MisuseError("this thread has an open transaction of this writer, and the " +
                      store_->description() +
                      " has one writer at a time: a new one would wait for it for ever; commit it "
                      "or roll it back first");
  }
  return Transaction(std::make_unique<internal::TransactionState>(*this, store_->connect()));
}

void Writer::check_process() const {
  if (pid_ == getpid()) return;
  throw MisuseError("this writer belongs to the parent process: make a new one after fork()");
}

bool Writer::in_transaction() const { return internal::TransactionState::find(*this) != nullptr; }

std::string Writer::write(Draft draft) {
  std::vector<std::string> ids = write_in(open_transaction("write"), only(std::move(draft)));
  return ids.empty() ? std::string() : std::move(ids.front());
}

std::string Writer::write(const Name& type, std::string json_payload) {
  return write({.type = type, .payload = json(std::move(json_payload))});
}

std::vector<std::string> Writer::write_all(std::vector<Draft> drafts) {
  return write_in(open_transaction("write_all"), std::move(drafts));
}

WriteToken Writer::write(Connection& own, Draft draft) {
  return write_all(own, only(std::move(draft)));
}

WriteToken Writer::write_all(Connection& own, std::vector<Draft> drafts) {
  if (!own.in_transaction()) {
    own.insert({}, {});  // refuses, and knows why: that there is none, or that it has failed
    throw MisuseError("write on your own connection needs an open transaction on it: BEGIN first");
  }
  return WriteToken(insert(own, std::move(drafts), true), options_.hooks, options_.log);
}

internal::TransactionState& Writer::open_transaction(const char* call) const {
  internal::TransactionState* state = internal::TransactionState::find(*this);
  if (state != nullptr) return *state;
  throw MisuseError(std::string(call) +
                    " needs an open transaction on this thread: call begin() first");
}

std::vector<std::string> Writer::write_in(internal::TransactionState& state,
                                          std::vector<Draft> drafts) {
  std::vector<Written> events = insert(state.connection(), std::move(drafts), false);
  std::vector<std::string> ids = ids_of(events);
  if (!options_.hooks.empty()) state.wrote(std::move(events));
  return ids;
}

std::vector<Event> Writer::events_of(std::vector<Draft> drafts) const {
  for (const auto& hook : options_.hooks) hook->before_write(drafts);
  std::vector<Event> events;
  events.reserve(drafts.size());
  for (Draft& draft : drafts) events.push_back(make_event(std::move(draft), clock_));
  return events;
}

std::vector<Written> Writer::insert(Connection& connection, std::vector<Draft> drafts,
                                    bool own_connection) {
  std::vector<Event> events = events_of(std::move(drafts));
  if (events.empty()) return {};
  // A row that is claimed for us but never told of would wait for its lock to
  // expire.
  InsertOptions how;
  if (options_.claim_owner && !own_connection) how.owner = options_.claim_owner();
  if (options_.told && !own_connection) how.told = options_.told();
  const std::vector<RowRef> rows = connection.insert(events, how);
  const Clock::Steady inserted_at = clock_.steady();
  std::vector<Written> written;
  written.reserve(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    written.push_back({.event = std::move(events[i]),
                       .row = rows[i],
                       .own_connection = own_connection,
                       .claimed = !how.owner.empty(),
                       .inserted_at = inserted_at});
  }
  internal::call_hooks(options_.hooks, options_.log, &WriterHook::after_write, written);
  return written;
}

// --- WriteToken ---

WriteToken::WriteToken(std::vector<Written> events, std::vector<std::shared_ptr<WriterHook>> hooks,
                       Logger log)
    : ids_(ids_of(events)),
      events_(std::move(events)),
      hooks_(std::move(hooks)),
      log_(std::move(log)) {}

void WriteToken::committed() { tell(&WriterHook::after_commit); }
void WriteToken::rolled_back() { tell(&WriterHook::after_rollback); }

void WriteToken::tell(void (WriterHook::*member)(std::span<const Written>)) {
  const std::vector<Written> events = std::exchange(events_, {});
  internal::call_hooks(hooks_, log_, member, events);
}

// --- Savepoint ---

Savepoint::Savepoint(internal::TransactionState& state)
    : state_(&state), depth_(state.savepoint()) {}

Savepoint::Savepoint(Savepoint&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)), depth_(other.depth_) {}

Savepoint::~Savepoint() {
  if (state_ == nullptr) return;
  try {
    rollback();
  } catch (const std::exception&) {
    // The transaction is broken or over, and with it all that was written here.
  }
}

void Savepoint::release() {
  if (state_ == nullptr) throw MisuseError("this savepoint is over already");
  std::exchange(state_, nullptr)->release(depth_);
}

void Savepoint::rollback() {
  if (state_ == nullptr) throw MisuseError("this savepoint is over already");
  std::exchange(state_, nullptr)->rollback_to(depth_);
}

// --- Transaction ---

Transaction::Transaction(std::unique_ptr<internal::TransactionState> state)
    : state_(std::move(state)) {}

Transaction::Transaction(Transaction&& other) noexcept = default;
Transaction::~Transaction() = default;

std::string Transaction::write(Draft draft) {
  std::vector<Draft> drafts;
  drafts.push_back(std::move(draft));
  std::vector<std::string> ids = write_all(std::move(drafts));
  return ids.empty() ? std::string() : std::move(ids.front());
}

std::vector<std::string> Transaction::write_all(std::vector<Draft> drafts) {
  connection();  // refuses a transaction that is over
  return state_->writer().write_in(*state_, std::move(drafts));
}

Savepoint Transaction::savepoint() {
  connection();
  return Savepoint(*state_);
}

void Transaction::after_commit(std::function<void()> callback) {
  connection();
  state_->after_commit(std::move(callback));
}

void Transaction::after_rollback(std::function<void()> callback) {
  connection();
  state_->after_rollback(std::move(callback));
}

void Transaction::commit() {
  connection();
  state_->commit();
}

void Transaction::rollback() {
  connection();
  state_->rollback();
}

void Transaction::detach() {
  connection();
  state_->detach();
}

bool Transaction::open() const noexcept { return state_ && !state_->over(); }

Store& Transaction::store() const {
  if (!state_) throw MisuseError("this transaction was moved from");
  return state_->writer().store();
}

Connection& Transaction::connection() {
  if (!state_) throw MisuseError("this transaction was moved from");
  return state_->connection();
}

// --- Rows ---

namespace {

void check_columns(const ResultRow& row, std::size_t columns, std::string_view sql) {
  if (row.size() == columns) return;
  throw MisuseError("the rows of " + quote(sql) + " have " + std::to_string(row.size()) +
                    " columns, and " + std::to_string(columns) + " types were requested");
}

}  // namespace

const ResultRow& Transaction::only_row(const std::vector<ResultRow>& rows, std::size_t columns,
                                       std::string_view sql) {
  const ResultRow* row = row_if_any(rows, columns, sql);
  if (row != nullptr) return *row;
  throw MisuseError("query_one() got no row from " + quote(sql) +
                    ": if there may be none, call query_optional()");
}

const ResultRow* Transaction::row_if_any(const std::vector<ResultRow>& rows, std::size_t columns,
                                         std::string_view sql) {
  if (rows.size() > 1) {
    throw MisuseError("at most one row was expected and " + std::to_string(rows.size()) +
                      " came from " + quote(sql) + ": call query(), or limit it");
  }
  if (rows.empty()) return nullptr;
  check_columns(rows.front(), columns, sql);
  return &rows.front();
}

}  // namespace outbox
