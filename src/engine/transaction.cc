#include "outbox/transaction.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

#include "base/mutex.h"
#include "base/quote.h"
#include "base/thread.h"
#include "engine/transaction_state.h"
#include "engine/writer_hooks.h"
#include "model/outcome.h"
#include "outbox/error.h"

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

// Of events whose insert was put off to the commit.
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

}  // namespace internal

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
  if (!state_) throw MisuseError("this transaction has been moved away");
  return state_->writer().store();
}

Connection& Transaction::connection() {
  if (!state_) throw MisuseError("this transaction has been moved away");
  return state_->connection();
}

// --- Rows ---

namespace {

void check_columns(const ResultRow& row, std::size_t columns, std::string_view sql) {
  if (row.size() == columns) return;
  throw MisuseError("the rows of " + quote(sql) + " have " + std::to_string(row.size()) +
                    " columns, and " + std::to_string(columns) + " types were asked for");
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
