#include "store/postgres/ownership.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process.h"
#include "model/instance_options.h"
#include "model/shards.h"
#include "outbox/error.h"
#include "store/postgres/connection.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/sql.h"
#include "store/postgres/subscriptions.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;

// A renewal that takes longer than this has failed: there must be time for another
// one within the lease.
milliseconds call_limit(milliseconds lease) {
  return std::clamp(lease / 3, milliseconds{1'000}, milliseconds{10'000});
}

}  // namespace

Ownership::Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner,
                     ShardGenerations& gains)
    : options_(options),
      owner_(std::move(owner)),
      stamp_(process_stamp()),
      database_(std::move(config)),
      owned_(gains) {
  database_.limit_calls(call_limit(options_.lease));
}

Lease Ownership::renew() {
  Answer answer;
  try {
    // That the server closed it while it was idle is no failed renewal.
    if (!database_.healthy()) database_.drop();
    answer = beat();
  } catch (...) {
    failed_ = true;
    throw;
  }
  failed_ = false;
  Lease lease = std::move(answer.lease);
  if (options_.row_claims) {
    const bool standby = answer.shards_owned || !answer.claims_rule;
    return {.epoch = standby ? 0 : epoch_};
  }
  told_.clear();
  for (const Lease::Inherited& inherited : lease.inherited) told_.push_back(inherited.shard);
  owned_.set(lease);
  const bool standby = lease.shards.empty() && lease.draining.empty();
  lease.epoch = standby ? 0 : epoch_;
  return lease;
}

// Registers again if it was declared dead since the last time, or if the server has another
// history than the one that it was registered in.
Ownership::Answer Ownership::beat() {
  if (epoch_ == 0 && last_epoch_ != 0) start_over();
  Answer answer = ask({});
  if (answer.epoch == 0 || answer.lost_history) {
    start_over();
    answer = ask({});
  }
  return answer.dead_neighbours.empty() ? answer : ask(answer.dead_neighbours);
}

// Nothing learnt under the last registration counts any more, and its connections are replaced:
// they may lead to a server that is not the primary any more.
void Ownership::start_over() {
  epoch_ = 0;
  registration_.end();
  owned_.clear();
  told_.clear();
  ++config_of(database_).server->new_starts;
}

// Some services don't tell, and a role may not be allowed to ask.
bool Ownership::tells_history() {
  Session& session = database_.session();
  if (std::exchange(asked_on_, database_.connections()) == database_.connections()) {
    return tells_history_;
  }
  const StoreConfig& config = config_of(database_);
  const ResultHandle told = session.try_script(std::string(kTimeline.text).c_str());
  if (!told) {
    throw RetryableError("the connection was lost while a renewal began (" + config.description +
                         ")");
  }
  const bool before = std::exchange(tells_history_, PQresultStatus(told.get()) == PGRES_TUPLES_OK);
  config.server->tells_history = tells_history_;
  if (before && !tells_history_) {
    config.options.log(
        {LogLevel::warning,
         "timeline_unknown",
         "the server does not report its timeline (" + config.description +
             "): " + message_of(session.handle(), told.get()) +
             "; after a failover that loses commits, events that were written on the new primary "
             "before this instance notices may be delivered late or out of order",
         {{"store", config.description}}});
  }
  return tells_history_;
}

Ownership::Answer Ownership::ask(const std::vector<std::string>& dead) {
  const bool with_history = tells_history();
  std::vector<std::optional<std::string_view>> dead_owners(dead.begin(), dead.end());
  std::vector<Call> calls;
  calls.push_back({sql::kLockShards, Parameters()});
  if (epoch_ == 0) {
    // What an earlier registration may have left behind, here or on the server that this one
    // followed.
    if (registered_ || last_epoch_ != 0) add_leave(calls);
    registered_ = true;
    calls.push_back(
        {sql::kRegister, Parameters(owner_, options_.lease.count(), options_.capacity,
                                    options_.exclusive, options_.row_claims, options_.name,
                                    host_name(), std::int64_t{getpid()}, stamp_, last_epoch_)});
  }
  const std::size_t beat = calls.size();
  calls.push_back({sql::kBeat, Parameters(owner_)});
  calls.push_back({sql::kEvict, Parameters(owner_, !failed_, dead_owners)});
  if (!options_.row_claims) calls.push_back({sql::kShare, Parameters(owner_, told_)});
  calls.push_back({sql::kLease, Parameters(owner_)});
  calls.push_back({sql::kNeighbours, Parameters(host_name())});
  if (with_history) calls.push_back({kTimeline, Parameters()});
  std::vector<Result> results = renewed(calls);
  std::string history;
  if (with_history) {
    history = results.back().text(0, 0);
    results.pop_back();
  }
  Answer answer = read(results, beat);
  if (epoch_ == 0) {
    if (answer.epoch == 0) refuse_to_register();
    epoch_ = last_epoch_ = answer.epoch;
    registration_.set(epoch_, owner_, history);
  }
  answer.lost_history = !history.empty() && registration_.is_elsewhere(history);
  return answer;
}

// A table that was switched to the other kind of progress has other columns.
std::vector<Result> Ownership::renewed(const std::vector<Call>& calls) {
  try {
    return database_.session().run_at_once(calls);
  } catch (const RetryableError&) {
    throw;
  } catch (const Error&) {
    const StoreConfig& config = config_of(database_);
    const Progress kind = ensure_progress(database_, std::nullopt, false);
    if (kind == config.naming.progress) throw;
    throw PermanentError("the table keeps its progress " +
                         std::string(kind == Progress::position ? "by position" : "in its rows") +
                         " since it was switched (" + config.description +
                         "): restart this program");
  }
}

// There are no shards to lease.
void Ownership::refuse_to_register() {
  const StoreConfig& config = config_of(database_);
  if (config.naming.progress == Progress::position) Subscriptions(database_).refuse_to_serve();
  throw PermanentError("the table " + config.table.qualified("shard") + " (" + config.description +
                       ") has no rows: restore its shards, 0 to 15");
}

void Ownership::add_leave(std::vector<Call>& calls) const {
  calls.push_back({sql::kLeaveShards, Parameters(owner_)});
  calls.push_back({sql::kLeave, Parameters(owner_)});
  // Only one that claims rows has any to give back.
  if (options_.row_claims) calls.push_back({sql::kUnclaimAll, Parameters(owner_)});
}

Ownership::Answer Ownership::read(const std::vector<Result>& results, std::size_t beat) const {
  Answer answer;
  if (results[beat].rows() == 0) return answer;
  answer.epoch = results[beat].integer(0, 0);

  const Result& owned = results[results.size() - 2];
  for (int row = 0; row < owned.rows(); ++row) {
    if (!is_shard(owned.integer(row, 0))) continue;
    const int shard = static_cast<int>(owned.integer(row, 0));
    const bool draining = owned.integer(row, 1) != 0;
    (draining ? answer.lease.draining : answer.lease.shards).push_back(shard);
    const auto candidates = owned.optional_integer(row, 2);
    if (candidates && !draining) {
      answer.lease.inherited.push_back(
          {.shard = shard, .candidates = static_cast<std::size_t>(*candidates)});
    }
  }

  const Result& neighbours = results.back();
  for (int row = 0; row < neighbours.rows(); ++row) {
    answer.shards_owned = neighbours.integer(row, 3) != 0;
    answer.claims_rule = neighbours.integer(row, 4) != 0;
    if (is_certainly_dead(neighbours.integer(row, 1), std::string(neighbours.text(row, 2)))) {
      answer.dead_neighbours.emplace_back(neighbours.text(row, 0));
    }
  }
  return answer;
}

void Ownership::release(int shard) {
  owned_.check(shard);
  database_.session().run_at_once(sql::kRelease, owner_, shard);
  owned_.erase(shard);
}

void Ownership::leave() {
  if (!registered_) return;
  // Whatever the server says to it, the next renewal registers again.
  epoch_ = 0;
  owned_.clear();
  told_.clear();
  std::vector<Call> calls{{sql::kLockShards, Parameters()}};
  add_leave(calls);
  try {
    database_.session().run_at_once(calls);
  } catch (...) {
    database_.drop();  // it may lead nowhere, or to another server than it did
    throw;
  }
  registered_ = false;
}

Rows Claims::claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) {
  require_row_claims(row_claims_);
  Rows result;
  if (limit.rows == 0) return result;
  // Each time another shard comes first, or a long one would starve the others.
  std::vector<std::int64_t> shards;
  shards.reserve(kShards);
  for (int i = 0; i < kShards; ++i) shards.push_back((begin_with_ + i) % kShards);
  begin_with_ = (begin_with_ + 1) % kShards;
  const Result claimed =
      database_.run(sql::kClaim, shards, owner_, lock_timeout_.count(), skip_recent.count(),
                    sql_limit(limit.rows), sql_limit(std::max<std::size_t>(limit.bytes, 1)));
  result.rows = decode_rows(claimed, *config_of(database_).options.codec);
  int number = 0;
  for (Row& row : result.rows) row.reclaimed = claimed.integer(number++, kRowColumns) != 0;
  std::size_t bytes = 0;
  for (const Row& row : result.rows) bytes += row.event.payload().size();
  result.more = result.rows.size() >= limit.rows || bytes >= limit.bytes;
  return result;
}

void Claims::unclaim(std::span<const RowRef> rows) {
  if (rows.empty()) return;
  std::vector<std::int64_t> shards, holds, seqs;
  for (const RowRef& row : rows) {
    shards.push_back(row.shard);
    holds.push_back(row.hold);
    seqs.push_back(row.seq);
  }
  database_.session().run_at_once(sql::kUnclaim, shards, holds, seqs, owner_);
}

}  // namespace outbox::postgres
