// Switches a table between progress in its rows and progress by position, while it is in use.
#include <unistd.h>

#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/process.h"
#include "base/quote.h"
#include "model/instance_options.h"
#include "model/shards.h"
#include "outbox/clock.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/postgres/connection.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/sql.h"
#include "store/postgres/store_config.h"
#include "store/postgres/subscriptions.h"
#include "store/postgres/switch_sql.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;

// How long writers and renewals may queue behind a lock of ours, and how long they then have.
constexpr milliseconds kLockLimit{200};
constexpr milliseconds kPause{800};

// Well below the lease of the switch, and short enough not to keep people waiting.
constexpr milliseconds kRenewal{300};

constexpr std::int64_t kRowsAtOnce = 5'000;

struct Index {
  std::string_view name;
  std::string_view definition;
};
constexpr Index kOfPosition[] = {{"order", "(shard, seq)"}, {"late", "(shard, xid, seq)"}};
constexpr Index kOfRows[] = {{"hold", "(shard, hold, seq) WHERE hold IS NOT NULL"},
                             {"due", "(shard, hold, seq) WHERE hold < 0"},
                             {"finished", "(seq) WHERE hold IS NULL"},
                             {"dead", "(seq) WHERE status = 3"}};

// See docs/architecture.md, I30. What is done before commit_switch() can be repeated, and harms
// nobody who goes on as before; so a switch that was killed is simply begun again.
class Switch {
 public:
  Switch(const std::string& url, const SwitchOptions& options)
      : options_(options),
        config_(StoreConfig::of(url, {.table = options.table, .prepare = false})),
        database_(config_, Use::operators),
        owner_(unique_owner("switch")),
        deadline_(SteadyClock::now() + options.patience) {}

  bool run(Progress to) {
    ensure_schema(database_, false);
    const Progress from = ensure_progress(database_, std::nullopt, false);
    config_->naming = {.progress = from, .subscription = std::string(kDefaultSubscription)};
    if (from == to) {
      drop_rest(to);
      return false;
    }
    if (to == Progress::position) {
      add_xid();
      create(kOfPosition);
    } else {
      choose_subscription();
      create(kOfRows);
      finish_behind();
    }
    say("taking over from those who deliver");
    try {
      while (!own_everything() || !commit_switch(to)) {
      }
    } catch (...) {
      leave();
      throw;
    }
    drop_rest(to);
    return true;
  }

 private:
  void say(const std::string& what) const {
    if (options_.on_step) options_.on_step(what);
  }
  void script(std::string_view text, std::string_view purpose) {
    database_.session().run_script(config_->expand(text), purpose);
  }

  // False if the locks could not be had. In a transaction, which waits for a lock only briefly.
  template <class Work>
  bool briefly(const Work& work) {
    Session& session = database_.session();
    session.run_script(
        "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE;"
        "SET LOCAL statement_timeout = 0;"
        "SET LOCAL idle_in_transaction_session_timeout = 0;"
        "SET LOCAL lock_timeout = " +
            std::to_string(kLockLimit.count()),
        "begin a switch");
    try {
      work();
      session.run_script("COMMIT", "commit a switch");
      return true;
    } catch (const RetryableError&) {
      if (!session.try_script("ROLLBACK") || session.broken()) throw;
      return false;
    } catch (...) {
      static_cast<void>(session.try_script("ROLLBACK"));
      throw;
    }
  }

  void wait(milliseconds pause, const std::string& what) const {
    if (SteadyClock::now() >= deadline_) {
      throw RetryableError(what + " (" + config_->description +
                           "): the table stays as it is; try again");
    }
    std::this_thread::sleep_for(pause);
  }

  // --- Before: nothing that is in anybody's way ---

  void add_xid() {
    if (database_.run(sql::switching::kHasXid).rows() > 0) return;
    say("adding the column xid");
    while (!briefly([&] { script(sql::switching::kAddXid, "add the column xid"); })) {
      wait(kPause, "an open transaction keeps the table locked");
    }
  }

  template <std::size_t N>
  void create(const Index (&indexes)[N]) {
    for (const Index& index : indexes) {
      const std::string name(index.name);
      // One that was interrupted is there, and serves nobody.
      const ResultHandle valid = database_.session().try_script(
          config_
              ->expand("SELECT FROM pg_index WHERE indexrelid = to_regclass('{" + name +
                       "}') AND indisvalid")
              .c_str());
      if (valid && PQntuples(valid.get()) == 1) continue;
      say("creating the index on " + std::string(index.definition));
      script("DROP INDEX CONCURRENTLY IF EXISTS {" + name + "}", "drop an incomplete index");
      script("CREATE INDEX CONCURRENTLY {index " + name + "} ON {table} " +
                 std::string(index.definition),
             "create an index");
    }
  }

  // Rows have one status, so there can be one receiver.
  void choose_subscription() {
    const std::vector<Subscription> all = Subscriptions(database_).list();
    if (all.size() != 1) {
      std::string names;
      for (const Subscription& one : all) {
        names.append(names.empty() ? "" : ", ").append(quote(one.name));
      }
      throw MisuseError("the table has several subscriptions (" + config_->description + "): " +
                        names + "; with progress in its rows it can have one: drop the others");
    }
    config_->naming.subscription = all.front().name;
  }

  void finish_behind() {
    std::int64_t seen = 0;
    for (int shard = 0; shard < kShards; ++shard) {
      Seq after = 0;
      for (bool more = true; more;) {
        const Result step = database_.run(sql::switching::kFinishBehind, shard, after, kRowsAtOnce);
        const std::int64_t rows = step.integer(0, 1);
        more = rows == kRowsAtOnce;
        if (rows > 0) after = step.integer(0, 0);
        seen += rows;
      }
      say("went through " + std::to_string(seen) + " events of " + std::to_string(shard + 1) +
          " of " + std::to_string(kShards) + " shards");
    }
  }

  // --- As an instance ---

  // True if nobody else owns anything.
  bool own_everything() {
    std::vector<Call> calls{{sql::kLockShards, Parameters()}};
    if (!registered_) {
      refuse_claimers();
      calls.push_back({sql::switching::kRegister,
                       Parameters(owner_, host_name(), std::int64_t{getpid()}, process_stamp())});
    }
    const std::size_t beat = calls.size();
    calls.push_back({sql::kBeat, Parameters(owner_)});
    calls.push_back(
        {sql::kEvict,
         Parameters(owner_, true, std::vector<OptionalText>(dead_.begin(), dead_.end()))});
    calls.push_back({sql::kShare, Parameters(owner_, std::vector<std::int64_t>())});
    calls.push_back({sql::kNeighbours, Parameters(host_name())});
    calls.push_back({sql::switching::kOwners, Parameters(owner_)});
    const std::vector<Result> results = database_.session().run_at_once(calls);
    registered_ = results[beat].rows() == 1;
    const Result& others = results.back();
    if (others.rows() == 0) return true;
    if (note_dead(results[results.size() - 2])) return false;
    const std::string who = quote(others.text(0, 0)) + " (process " +
                            std::to_string(others.integer(0, 2)) + " on " +
                            std::string(others.text(0, 1)) + ")";
    say("waiting for " + who + ", which drains what it owns");
    wait(kRenewal, who + " has not drained what it owns in time");
    return false;
  }

  // Whose leases need not be waited for; see Ownership. True if there are some.
  bool note_dead(const Result& neighbours) {
    dead_.clear();
    for (int row = 0; row < neighbours.rows(); ++row) {
      if (is_certainly_dead(neighbours.integer(row, 1), std::string(neighbours.text(row, 2)))) {
        dead_.emplace_back(neighbours.text(row, 0));
      }
    }
    return !dead_.empty();
  }

  // They own rows, not shards, so they cannot be asked to drain.
  void refuse_claimers() {
    const Result claimers = database_.run(sql::switching::kClaimers);
    if (claimers.rows() == 0) return;
    throw MisuseError(quote(claimers.text(0, 0)) + " (process " +
                      std::to_string(claimers.integer(0, 2)) + " on " +
                      std::string(claimers.text(0, 1)) + ") claims single rows (" +
                      config_->description + "), which progress by position cannot do: stop it");
  }

  // The one transaction that decides. False if it could not have its locks, or somebody has joined.
  bool commit_switch(Progress to) {
    bool done = false;
    const bool committed = briefly([&] {
      script("LOCK TABLE {shard}, {instance} IN ACCESS EXCLUSIVE MODE", "lock the leases");
      if (database_.run(sql::switching::kOwners, owner_).rows() > 0) return;
      if (to == Progress::position) {
        to_position();
      } else {
        script(sql::switching::kFinishRest, "update delivered events");
        script(sql::switching::kPutBack, "put delivery rows back");
        script(sql::switching::kDropCursors, "drop the positions");
      }
      done = true;
    });
    if (!committed) wait(kPause, "an open transaction keeps the leases locked");
    return committed && done;
  }

  void to_position() {
    script(
        "DELETE FROM {instance}; DELETE FROM {unblocked};"
        "UPDATE {shard} SET owner = NULL, draining = false",
        "release the shards");
    const std::string text = positions_sql() + std::string(sql::switching::kSetPositions) +
                             std::string(sql::switching::kCopyWaiting);
    database_.session().run_script(
        expand(text, config_->table,
               {.progress = Progress::position, .subscription = config_->naming.subscription}),
        "set up progress by position");
  }

  // --- Afterwards: indexes that nobody needs any more ---

  void drop_rest(Progress kind) {
    const std::span<const Index> rest =
        kind == Progress::position ? std::span<const Index>(kOfRows) : kOfPosition;
    try {
      script("SET lock_timeout = " + std::to_string(options_.patience.count()), "limit waiting");
      for (const Index& index : rest) {
        say("dropping the index on " + std::string(index.definition));
        script("DROP INDEX CONCURRENTLY IF EXISTS {" + std::string(index.name) + "}",
               "drop an index");
      }
    } catch (const RetryableError& error) {
      say("the table was switched, but an index that it does not need any more is still there: " +
          std::string(error.what()) + "; to drop it, switch the table once more");
    }
  }

  void leave() noexcept {
    try {
      if (database_.session().in_transaction()) database_.drop();
      const std::vector<Call> calls{{sql::kLockShards, Parameters()},
                                    {sql::kLeaveShards, Parameters(owner_)},
                                    {sql::kLeave, Parameters(owner_)}};
      database_.session().run_at_once(calls);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): its lease will expire
    }
  }

  const SwitchOptions options_;
  const std::shared_ptr<StoreConfig> config_;
  Database database_;
  const std::string owner_;
  const std::chrono::steady_clock::time_point deadline_;
  bool registered_ = false;
  std::vector<std::string> dead_;
};

}  // namespace

bool switch_progress(const std::string& url, Progress to, const SwitchOptions& options) {
  return Switch(url, options).run(to);
}

}  // namespace outbox::postgres
