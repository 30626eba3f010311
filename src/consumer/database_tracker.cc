// The tracker on a database: one row for each group and event. What holds, because each
// statement is a transaction of its own and compares what it found:
//
// - The fence of a row never falls. A consumer that begins takes a greater one than all before
//   it, and than those of a row that was removed since: the database's clock, or one more.
// - A row in progress whose lease is not over by the database's clock is begun by nobody but
//   the call that has begun it; a row that is done by nobody before its retention is over.
// - Only the consumer with the fence of the row ends it.
#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "consumer/dialect.h"
#include "consumer/old_rows.h"
#include "consumer/tracker_rules.h"
#include "outbox/consumer/consumption.h"
#include "outbox/error.h"
#include "outbox/spi/store.h"

namespace outbox {
namespace {

using internal::OldRows;
using internal::render_sql;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr const char* kBegin =
    "{insert} {consumption}"
    " (consumer, event_id, state, fence, owner, lease_until, changed_at)"
    " VALUES (?, ?, 1, {clock}, ?, {after ?}, {now}) {unless there}";

// It may be begun: it was abandoned, its lease is over, or its retention.
constexpr const char* kBeginAgain =
    "UPDATE {consumption} SET state = 1,"
    " fence = CASE WHEN fence < {clock} THEN {clock} ELSE fence + 1 END,"
    " owner = ?, lease_until = {after ?}, changed_at = {now}"
    " WHERE consumer = ? AND event_id = ?"
    " AND (state = 0 OR (state = 1 AND lease_until <= {now}) OR changed_at < {before ?})";

constexpr const char* kRenew =
    "UPDATE {consumption} SET lease_until = {after ?}, changed_at = {now}"
    " WHERE consumer = ? AND event_id = ? AND owner = ? AND state = 1";

constexpr const char* kRead =
    "SELECT state, fence, owner, {left} FROM {consumption} WHERE consumer = ? AND event_id = ?";

constexpr const char* kFinish =
    "UPDATE {consumption} SET state = 2, changed_at = {now}"
    " WHERE consumer = ? AND event_id = ? AND fence = ?";

// Of an event that was forgotten: its effect has happened.
constexpr const char* kRecord =
    "{insert} {consumption}"
    " (consumer, event_id, state, fence, owner, lease_until, changed_at)"
    " VALUES (?, ?, 2, ?, '', {now}, {now}) {unless there}";

constexpr const char* kAbandon =
    "UPDATE {consumption} SET state = 0, changed_at = {now}"
    " WHERE consumer = ? AND event_id = ? AND fence = ? AND state <> 2";

constexpr std::int64_t kInProgress = 1;
constexpr std::int64_t kDone = 2;

// A call that finds what it can neither begin nor leave to another looks again: it was
// abandoned or removed meanwhile.
constexpr int kLooks = 5;

// For the victim of a deadlock, and for a connection that turns out to be dead.
constexpr int kAttempts = 2;

internal::OldRowsOptions purge_options(std::chrono::seconds retention,
                                       DatabaseTrackerOptions options) {
  return {.what = "tracker",
          .table = "{consumption}",
          .key = "consumer, event_id",
          .since = "changed_at",
          .retention = retention,
          .interval = options.purge_interval,
          .batch = options.purge_batch,
          .log = options.log ? std::move(options.log) : standard_error_log()};
}

class DatabaseTracker final : public ConsumptionTracker {
 public:
  DatabaseTracker(std::shared_ptr<Store> store, TrackerOptions tracking,
                  DatabaseTrackerOptions options)
      : store_(std::move(store)),
        lease_(microseconds(tracking.lease).count()),
        retention_(microseconds(tracking.retention).count()),
        begin_(sql(kBegin)),
        begin_again_(sql(kBeginAgain)),
        renew_(sql(kRenew)),
        read_(sql(kRead)),
        finish_(sql(kFinish)),
        record_(sql(kRecord)),
        abandon_(sql(kAbandon)),
        old_rows_(std::make_unique<OldRows>(store_,
                                            purge_options(tracking.retention, std::move(options)),
                                            "DatabaseTrackerOptions")) {}

  ~DatabaseTracker() override {
    // The thread is the parent's: there is nothing here to end.
    if (!old_rows_->schedule().in_this_process()) static_cast<void>(old_rows_.release());
  }

  Start start(std::string_view group, std::string_view event_id) override {
    const Key key = key_of(group, event_id);
    // Not before: a tracker that is made and never used has no thread.
    std::call_once(purging_, [&] { old_rows_->schedule().start(); });
    const std::string name = std::to_string(group.size()) + ':' + key.group + key.event_id;
    std::string owner = lost_starts_.take(name);
    try {
      return ask([&](Connection& on) { return start_on(on, key, owner); });
    } catch (...) {
      lost_starts_.put(name, std::move(owner));
      throw;
    }
  }

  bool finish(std::string_view group, std::string_view event_id, std::int64_t fence) override {
    const Key key = key_of(group, event_id);
    const std::vector<Parameter> values{key.group, key.event_id, fence};
    return ask([&](Connection& on) {
      // The second time for a row that another call for this fence has just recorded.
      return on.execute(finish_, values) > 0 || on.execute(record_, values) > 0 ||
             on.execute(finish_, values) > 0;
    });
  }

  bool abandon(std::string_view group, std::string_view event_id, std::int64_t fence) override {
    const Key key = key_of(group, event_id);
    const std::vector<Parameter> values{key.group, key.event_id, fence};
    return ask([&](Connection& on) {
      return on.execute(abandon_, values) > 0 || on.query(read_, key.values()).empty();
    });
  }

 private:
  struct Key {
    std::string group;
    std::string event_id;

    std::vector<Parameter> values() const { return {group, event_id}; }
  };

  static Key key_of(std::string_view group, std::string_view event_id) {
    // Before the statement: MySQL would cut them to fit, and take two events for one.
    internal::check_consumed_event(group, event_id);
    return {.group = std::string(group), .event_id = std::string(event_id)};
  }

  std::string sql(std::string_view text) const { return render_sql(text, *store_, "the tracker"); }

  // Calls `work`, which may be repeated, on a connection without a transaction.
  template <class Work>
  std::invoke_result_t<const Work&, Connection&> ask(const Work& work) const {
    for (int left = kAttempts;; --left) {
      const std::unique_ptr<Connection> on = connect();
      try {
        return work(*on);
      } catch (const RetryableError& error) {
        if (left == 1) throw UnavailableError(error.what());
      } catch (const OutcomeUnknownError& error) {
        if (left == 1) throw UnavailableError(error.what());
      } catch (const MisuseError& error) {
        // The statement is ours: the table is not as it should be.
        throw PermanentError(error.what());
      }
    }
  }

  std::unique_ptr<Connection> connect() const {
    try {
      return store_->connect();
    } catch (const RetryableError& error) {
      throw UnavailableError(error.what());
    }
  }

  Start start_on(Connection& on, const Key& key, const std::string& owner) const {
    const std::vector<Parameter> first{key.group, key.event_id, owner, lease_};
    const std::vector<Parameter> next{owner, lease_, key.group, key.event_id, retention_};
    for (int left = kLooks; left > 0; --left) {
      const bool begun = on.execute(begin_, first) > 0 || on.execute(begin_again_, next) > 0;
      const std::vector<ResultRow> rows = on.query(read_, key.values());
      if (rows.empty()) continue;
      const ResultRow& row = rows.front();
      const auto state = row.get<std::int64_t>(0);
      if (state == kDone) return {.state = State::done};
      if (state != kInProgress) continue;
      if (row.get<std::string>(2) != owner) {
        const microseconds rest{std::max<std::int64_t>(row.get<std::int64_t>(3), 0)};
        return {.state = State::in_progress, .expires_in = std::chrono::ceil<milliseconds>(rest)};
      }
      // By an attempt of this call whose answer was lost: its lease begins now.
      const std::vector<Parameter> ours{lease_, key.group, key.event_id, owner};
      if (!begun && on.execute(renew_, ours) == 0) continue;
      return {.state = State::started, .fence = row.get<std::int64_t>(1)};
    }
    throw UnavailableError("too many consumers begin one event at once (" + store_->description() +
                           ")");
  }

  // Constant after construction.
  const std::shared_ptr<Store> store_;
  const std::int64_t lease_;      // in microseconds, as
  const std::int64_t retention_;  // is this
  const std::string begin_;
  const std::string begin_again_;
  const std::string renew_;
  const std::string read_;
  const std::string finish_;
  const std::string record_;
  const std::string abandon_;

  internal::LostStarts lost_starts_;
  std::once_flag purging_;
  std::unique_ptr<OldRows> old_rows_;
};

}  // namespace

std::shared_ptr<ConsumptionTracker> database_tracker(std::shared_ptr<Store> store,
                                                     TrackerOptions tracking,
                                                     DatabaseTrackerOptions options) {
  if (!store) throw MisuseError("database_tracker: the store is null");
  internal::check_tracker_options(tracking);
  return std::make_shared<DatabaseTracker>(std::move(store), tracking, std::move(options));
}

}  // namespace outbox
