#include "outbox/consumer/idempotent_create.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/bounded.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "base/quote.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "consumer/creation_table.h"
#include "consumer/old_rows.h"
#include "consumer/replay.h"
#include "outbox/event.h"

namespace outbox {
namespace {

using internal::CreationClaim;
using internal::CreationKey;
using internal::CreationRow;
using internal::CreationState;
using internal::CreationTable;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Between two looks at a request that another call works on.
constexpr milliseconds kFirstPause{2};
constexpr milliseconds kLongestPause{200};

// How often a claim may find that others were faster.
constexpr int kTries = 100;

CreateOptions checked(CreateOptions options) {
  const auto refuse = [](const char* option, const std::string& why) {
    throw MisuseError(std::string("CreateOptions::") + option + " " + why);
  };
  internal::check_public_id_prefix("CreateOptions::public_id_prefix", options.public_id_prefix);
  if (options.lease <= milliseconds::zero()) {
    refuse("lease", "must be positive, got " + std::to_string(options.lease.count()) + " ms");
  }
  if (options.wait < milliseconds::zero()) {
    refuse("wait", "must not be negative, got " + std::to_string(options.wait.count()) + " ms");
  }
  options.lease = internal::bounded(options.lease);
  options.wait = internal::bounded(options.wait);
  if (!options.log) options.log = standard_error_log();
  return options;
}

CreationKey checked(const CreateRequest& request) {
  check_text("CreateRequest::tenant_id", request.tenant_id, kMaxTenantIdLength);
  check_name("CreateRequest::key", request.key, kMaxRequestKeyLength);
  check_text("CreateRequest::hash", request.hash, kMaxRequestHashLength);
  if (request.body.has_value() != request.hash.empty()) {
    throw MisuseError(std::string("CreateRequest::body and CreateRequest::hash are ") +
                      (request.body ? "both given" : "both missing") +
                      ": give exactly one of them, for the key " + quote(request.key));
  }
  return {.tenant_id = request.tenant_id,
          .key = request.key,
          .hash = request.body ? sha256_hex(*request.body) : request.hash};
}

// Of the exception that is being handled, as it may be stored.
std::string current_error_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return cut_error_text(error.what());
  } catch (...) {
    return "something was thrown that is not a std::exception";
  }
}

milliseconds rounded_up(std::chrono::microseconds time) {
  return std::max(std::chrono::ceil<milliseconds>(time), milliseconds{1});
}

// What has come of the request, unless that is free to be taken over.
std::optional<Creation<>> answer(const CreationRow& row, const CreationKey& key) {
  if (row.hash != key.hash) {
    throw KeyReusedError("the key " + quote(key.key) + " of tenant " + quote(key.tenant_id) +
                         " was used before, by a request with another body: a new request needs"
                         " a new key");
  }
  if (row.is_free()) return std::nullopt;
  if (row.state == CreationState::succeeded) {
    return Creation<>{{.state = CreationStatus::State::repeated, .ids = row.ids}, row.result_ref};
  }
  return Creation<>{{.state = CreationStatus::State::in_progress,
                     .ids = row.ids,
                     .retry_after = rounded_up(row.left)}};
}

// Who holds which request in a transaction that has not ended: a request for it by
// another transaction waits for that, and a thread must not wait for itself. Thread-safe.
class JoinedRequests {
 public:
  // Until the transaction has ended, or the savepoint is rolled back that is open now.
  void add(Transaction& tx, const CreationKey& key);

  // Whether this thread holds it in another transaction than the one on `mine`, which may
  // be null.
  bool held_here(const CreationKey& key, const Connection* mine) const;

 private:
  struct Held {
    bool ended = false;  // only its thread looks
  };
  struct Entry {
    std::thread::id thread;
    const Connection* on;
    std::string tenant_id;
    std::string key;
    std::weak_ptr<Held> held;  // the transaction has it
  };

  mutable Mutex mutex_;
  std::vector<Entry> entries_ OUTBOX_GUARDED_BY(mutex_);
};

void JoinedRequests::add(Transaction& tx, const CreationKey& key) {
  auto held = std::make_shared<Held>();
  MutexLock lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return entry.held.expired(); });
  entries_.push_back({.thread = std::this_thread::get_id(),
                      .on = &tx.connection(),
                      .tenant_id = key.tenant_id,
                      .key = key.key,
                      .held = held});
  // What is rolled back forgets its callbacks, and with them this.
  tx.after_commit([held = std::move(held)] { held->ended = true; });
}

bool JoinedRequests::held_here(const CreationKey& key, const Connection* mine) const {
  MutexLock lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    if (entry.thread != std::this_thread::get_id() || entry.on == mine) return false;
    if (entry.key != key.key || entry.tenant_id != key.tenant_id) return false;
    const std::shared_ptr<Held> held = entry.held.lock();
    return held && !held->ended;
  });
}

}  // namespace

class IdempotentCreate::Impl {
 public:
  Impl(Writer& writer, CreateOptions options)
      : writer_(writer),
        store_(std::shared_ptr<Store>(), &writer.store()),  // the writer's, which outlives this
        options_(checked(std::move(options))),
        table_(*store_),
        one_writer_(store_->capabilities().one_writer),
        old_rows_(store_,
                  {.what = "creations",
                   .table = "{creation}",
                   .key = "tenant_id, request_key",
                   .since = "changed_at",
                   .condition = "state <> 0 OR lease_until <= {now}",
                   .retention = options_.retention,
                   .interval = options_.purge_interval,
                   .batch = options_.purge_batch,
                   .log = options_.log},
                  "CreateOptions") {}

  Creation<> run(const CreateRequest& request, const Work& work) {
    const CreationKey key = checked(request);
    check_work(work);
    check_alone();
    if (writer_.in_transaction()) check_not_held(key, nullptr);
    const Found found = claim_or_wait(key);
    if (const auto* known = std::get_if<Creation<>>(&found)) return *known;
    return create(key, std::get<CreationClaim>(found), work);
  }

  Creation<> join(Transaction& tx, const CreateRequest& request, const Work& work) {
    const CreationKey key = checked(request);
    check_work(work);
    check_own(tx);
    check_not_held(key, &tx.connection());
    const Found found = claim(tx.connection(), key, new_claim(), {.in_transaction = true});
    if (const auto* known = std::get_if<Creation<>>(&found)) return *known;
    const auto& claim = std::get<CreationClaim>(found);
    try {
      joined_.add(tx, key);
      return finished(tx, key, claim, work(tx, claim.ids));
    } catch (...) {
      const std::string error = current_error_text();
      roll_back(tx, claim);
      record(claim, [&](Connection& on) {
        // The claim was rolled back, too; others may have come since, and then it is theirs.
        if (claim.former.empty()) {
          table_.insert(on, key, claim, options_.lease);
        } else {
          table_.take_over(on, key, claim, options_.lease);
        }
        table_.fail(on, key, claim, error);
      });
      throw;
    }
  }

  // What has happened before an error goes on to the caller, who rolls it back.
  Creation<> join(Connection& own, const CreateRequest& request, const OwnWork& work) {
    const CreationKey key = checked(request);
    check_work(work);
    if (!own.in_transaction()) {
      throw MisuseError("IdempotentCreate::join() was called outside a transaction (" +
                        store_->description() +
                        ", an external connection): begin the transaction that it should join");
    }
    check_not_held(key, &own);
    const Found found = claim(own, key, new_claim(), {.in_transaction = true});
    if (const auto* known = std::get_if<Creation<>>(&found)) return *known;
    const auto& claim = std::get<CreationClaim>(found);
    std::string result = work(claim.ids);
    check_open(own.in_transaction(), key);
    return recorded(own, key, claim, std::move(result));
  }

  void join_async(const AsyncExecutor& executor, const CreateRequest& request,
                  const AsyncWork& work, const CreateDone& done) {
    const CreationKey key = checked(request);
    check_work(work);
    const auto record = [this, executor, key, done](const CreationClaim& claim,
                                                    std::string result) {
      internal::replay<Creation<>>(
          executor, *store_, kJoinAsync,
          [this, key, claim, result = std::move(result)](Connection& on) {
            return recorded(on, key, claim, result);
          },
          [done](std::exception_ptr error, std::optional<Creation<>> creation) {
            done(std::move(error), std::move(creation).value_or(Creation<>{}));
          });
    };
    // Made once: the claim is run again with each answer.
    internal::replay<Found>(
        executor, *store_, kJoinAsync,
        [this, key, mine = new_claim()](Connection& on) {
          return claim(on, key, mine, {.in_transaction = true});
        },
        [work, done, record](std::exception_ptr error, std::optional<Found> found) {
          if (error) return done(std::move(error), {});
          if (auto* known = std::get_if<Creation<>>(&*found))
            return done(nullptr, std::move(*known));
          const auto& claim = std::get<CreationClaim>(*found);
          work(claim.ids, [claim, done, record](std::exception_ptr failed, std::string result) {
            if (failed) return done(std::move(failed), {});
            record(claim, std::move(result));
          });
        });
  }

  internal::OldRows& old_rows() { return old_rows_; }

 private:
  static constexpr const char* kJoinAsync = "IdempotentCreate::join_async()";

  // The right to create, or what has come of the request.
  using Found = std::variant<CreationClaim, Creation<>>;

  struct How {
    bool in_transaction = false;
    bool look_first = false;  // there is a row already, as far as one knows
  };

  // Where there is one writer at a time, the claim would wait for the open transaction.
  void check_alone() const {
    if (!one_writer_ || !writer_.in_transaction()) return;
    throw MisuseError(
        "IdempotentCreate::run() needs a transaction of its own, and this thread has "
        "one open on the " +
        store_->description() +
        ", which has one writer at a time: use join(), or end the open one first");
  }

  // In another database the claim would guard nothing, and a failure would be recorded here.
  void check_own(const Transaction& tx) const {
    if (&tx.store() == store_.get()) return;
    throw MisuseError(
        "IdempotentCreate::join() was given a transaction of another writer, on the " +
        tx.store().description() + ": begin it with the writer that it was made with, on the " +
        store_->description());
  }

  void check_not_held(const CreationKey& key, const Connection* mine) const {
    if (!joined_.held_here(key, mine)) return;
    throw MisuseError("the request with key " + quote(key.key) + " of tenant " +
                      quote(key.tenant_id) +
                      " is joined to a transaction that this thread has open, and a second one "
                      "would wait for it for ever (" +
                      store_->description() + "): end that first, or use join() with it");
  }

  // Does what may be done twice, on a connection without a transaction: that one was lost
  // while it was idle, or an answer on its way, shows only now.
  template <class Act>
  auto alone(const Act& act) const {
    const auto on = store_->connect();
    try {
      return act(*on);
    } catch (const RetryableError&) {
      return act(*on);
    }
  }

  template <class AnyWork>
  static void check_work(const AnyWork& work) {
    if (!work) throw MisuseError("IdempotentCreate: the work is empty: give it a function");
  }

  CreationClaim new_claim() const {
    return {.owner = new_id(),
            .ids = {.internal_id = new_id(),
                    .public_id = internal::new_public_id(options_.public_id_prefix)}};
  }

  // Makes the request this call's own, if it is free.
  Found claim(Connection& on, const CreationKey& key, const CreationClaim& mine, How how) const {
    for (int tries = 0; tries < kTries; ++tries) {
      if (!how.look_first && table_.insert(on, key, mine, options_.lease)) return mine;
      how.look_first = false;
      const std::optional<CreationRow> row =
          how.in_transaction ? table_.read_newest(on, key) : table_.read(on, key);
      if (!row) continue;  // purged in between, or never there
      const CreationClaim taken{.owner = mine.owner, .former = row->owner, .ids = row->ids};
      if (row->owner == mine.owner) return taken;  // the answer was lost
      if (std::optional<Creation<>> known = answer(*row, key)) return *std::move(known);
      if (table_.take_over(on, key, taken, options_.lease)) return taken;
      // Another call was faster: see what it made of it.
    }
    throw RetryableError("the record of key " + quote(key.key) + " changed " +
                         std::to_string(kTries) + " times while this call tried to claim it (" +
                         store_->description() + "): repeat the request");
  }

  // Each statement of the claim is a transaction of its own. Where there is one writer at
  // a time, an INSERT would wait for the one that works on the request.
  Found claim_or_wait(const CreationKey& key) const {
    const auto deadline = steady_clock::now() + options_.wait;
    const CreationClaim mine = new_claim();
    How how{.look_first = one_writer_};
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      const auto asked = steady_clock::now();
      Found found = alone([&](Connection& on) { return claim(on, key, mine, how); });
      // A claim that had to wait counts its lease from before that.
      if (const auto* claimed = std::get_if<CreationClaim>(&found);
          claimed != nullptr && steady_clock::now() - asked > options_.lease / 4 &&
          !alone([&](Connection& on) { return table_.renew(on, key, *claimed, options_.lease); })) {
        continue;  // it was taken over meanwhile
      }
      const auto* known = std::get_if<Creation<>>(&found);
      if (known == nullptr || !known->in_progress()) return found;
      const auto left = deadline - steady_clock::now();
      if (left <= steady_clock::duration::zero()) return found;
      sleep_for(std::min<steady_clock::duration>({pause, left, known->retry_after}));
      how.look_first = true;
    }
  }

  Creation<> create(const CreationKey& key, const CreationClaim& claim, const Work& work) {
    bool committing = false;
    try {
      Transaction tx = writer_.begin_new();
      Creation<> creation = finished(tx, key, claim, work(tx, claim.ids));
      committing = true;
      tx.commit();
      return creation;
    } catch (const OutcomeUnknownError&) {
      // It may have happened: the next call finds that out, or waits for the lease.
      if (!committing) record_failure(key, claim);
      throw;
    } catch (...) {
      record_failure(key, claim);
      throw;
    }
  }

  // What it has committed cannot be taken back, and the next call may create it again.
  static void check_open(bool open, const CreationKey& key) {
    if (open) return;
    throw MisuseError("IdempotentCreate: the work for the key " + quote(key.key) +
                      " ended the transaction, so that its result cannot be recorded: leave the "
                      "commit to run(), or to the caller of join()");
  }

  // Records the success in the transaction of the work, before its end: a call that has lost
  // the claim cannot commit.
  Creation<> finished(Transaction& tx, const CreationKey& key, const CreationClaim& claim,
                      std::string result) const {
    check_open(tx.open(), key);
    return recorded(tx.connection(), key, claim, std::move(result));
  }

  Creation<> recorded(Connection& on, const CreationKey& key, const CreationClaim& claim,
                      std::string result) const {
    check_text("result", result, kMaxResultLength);
    if (!table_.succeed(on, key, claim, result)) {
      throw RetryableError("the request with key " + quote(key.key) +
                           " was taken over by another call (" + store_->description() +
                           "), because this one did not end within CreateOptions::lease, " +
                           std::to_string(options_.lease.count()) +
                           " ms: it is rolled back; repeat the request for the other's result");
    }
    return {{.state = CreationStatus::State::created, .ids = claim.ids}, std::move(result)};
  }

  // After the rollback, in the handler of the exception that caused it.
  void record_failure(const CreationKey& key, const CreationClaim& claim) const {
    const std::string error = current_error_text();
    record(claim, [&](Connection& on) { table_.fail(on, key, claim, error); });
  }

  // If it cannot be recorded, the lease will end.
  template <class Statement>
  void record(const CreationClaim& claim, const Statement& statement) const {
    try {
      alone([&](Connection& on) { statement(on); });
    } catch (const std::exception& error) {
      options_.log({LogLevel::warning,
                    "creation_not_recorded",
                    "the failure of creation " + claim.ids.internal_id +
                        " could not be recorded: " + error.what(),
                    {{"creation", claim.ids.internal_id}, {"error", error.what()}}});
    }
  }

  void roll_back(Transaction& tx, const CreationClaim& claim) const {
    try {
      tx.rollback();
    } catch (const std::exception& error) {
      options_.log({LogLevel::warning,
                    "creation_not_rolled_back",
                    "the transaction of creation " + claim.ids.internal_id +
                        " could not be rolled back cleanly: " + error.what(),
                    {{"creation", claim.ids.internal_id}, {"error", error.what()}}});
    }
  }

  // Constant after construction.
  Writer& writer_;
  const std::shared_ptr<Store> store_;
  const CreateOptions options_;
  const CreationTable table_;
  const bool one_writer_;

  JoinedRequests joined_;
  internal::OldRows old_rows_;  // last: its thread uses the others
};

IdempotentCreate::IdempotentCreate(Writer& writer, CreateOptions options)
    : impl_(std::make_unique<Impl>(writer, std::move(options))) {}

IdempotentCreate::~IdempotentCreate() {
  // The thread is the parent's: there is nothing here to end.
  if (!impl_->old_rows().schedule().in_this_process()) static_cast<void>(impl_.release());
}

Creation<> IdempotentCreate::run_recorded(const CreateRequest& request, const Work& work) {
  return impl_->run(request, work);
}

Creation<> IdempotentCreate::join_recorded(Transaction& tx, const CreateRequest& request,
                                           const Work& work) {
  return impl_->join(tx, request, work);
}

Creation<> IdempotentCreate::join_recorded(Connection& own, const CreateRequest& request,
                                           const OwnWork& work) {
  return impl_->join(own, request, work);
}

void IdempotentCreate::join_async(AsyncExecutor executor, const CreateRequest& request,
                                  AsyncWork work, CreateDone done) {
  impl_->join_async(executor, request, work, done);
}

std::int64_t IdempotentCreate::purge(std::stop_token stop) { return impl_->old_rows().purge(stop); }
void IdempotentCreate::start() { impl_->old_rows().schedule().start(); }
void IdempotentCreate::close() { impl_->old_rows().schedule().close(); }

}  // namespace outbox
