#include "outbox/writer.h"

#include <unistd.h>

#include <exception>
#include <utility>

#include "engine/transaction_state.h"
#include "engine/writer_hooks.h"
#include "model/outcome.h"
#include "outbox/error.h"

namespace outbox {
namespace internal {

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

}  // namespace internal

namespace {

WriterOptions checked(WriterOptions options) {
  for (const auto& hook : options.hooks) {
    if (!hook) throw MisuseError("writer: a hook is null");
  }
  if (!options.log) options.log = standard_error_log();
  return options;
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
    : store_(std::move(store)), options_(checked(std::move(options))), pid_(getpid()) {
  if (!store_) throw MisuseError("writer: the store is null");
}

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
                      " has one writer at a time: a new one would wait for it in vain; commit it "
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

std::vector<Written> Writer::insert(Connection& connection, std::vector<Draft> drafts,
                                    bool own_connection) {
  for (const auto& hook : options_.hooks) hook->before_write(drafts);
  if (drafts.empty()) return {};
  std::vector<Event> events;
  events.reserve(drafts.size());
  for (Draft& draft : drafts) events.push_back(make_event(std::move(draft), store_->clock()));
  // A row that is claimed for us but never told of would wait for its lock to
  // expire.
  InsertOptions how;
  if (options_.claim_owner && !own_connection) how.owner = options_.claim_owner();
  const std::vector<RowRef> rows = connection.insert(events, how);
  const Clock::Steady inserted_at = store_->clock().steady();
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

void WriteToken::committed() {
  const std::vector<Written> events = std::exchange(events_, {});
  internal::call_hooks(hooks_, log_, &WriterHook::after_commit, events);
}

}  // namespace outbox
