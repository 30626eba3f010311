#include "store/postgres/ownership.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/process.h"
#include "outbox/error.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;

// A renewal that takes longer than this has failed: there must be time for another
// one within the lease.
milliseconds call_limit(milliseconds lease) {
  return std::clamp(lease / 3, milliseconds{1'000}, milliseconds{10'000});
}

}  // namespace

Ownership::Ownership(EnvironmentPtr environment, const InstanceOptions& options, std::string owner,
                     Gains& gains)
    : options_(options),
      owner_(std::move(owner)),
      stamp_(process_stamp()),
      gains_(gains),
      database_(std::move(environment)) {
  database_.limit_calls(call_limit(options_.lease));
}

Tenure Ownership::renew() {
  Answer answer;
  try {
    answer = ask({});
    if (!answer.dead_neighbours.empty()) answer = ask(answer.dead_neighbours);
    // Declared dead since the last time: it registers anew, with another epoch.
    if (answer.epoch == 0) {
      epoch_ = 0;
      owned_.clear();
      answer = ask({});
    }
  } catch (...) {
    failed_ = true;
    throw;
  }
  failed_ = false;
  epoch_ = answer.epoch;
  Tenure tenure = std::move(answer.tenure);
  if (options_.row_claims) {
    const bool stands_by = answer.shards_owned || !answer.claims_rule;
    return {.epoch = stands_by ? 0 : epoch_};
  }
  told_.clear();
  for (const Tenure::Inherited& inherited : tenure.inherited) told_.push_back(inherited.shard);
  note_gains(tenure);
  const bool stands_by = tenure.shards.empty() && tenure.leaving.empty();
  tenure.epoch = stands_by ? 0 : epoch_;
  return tenure;
}

Ownership::Answer Ownership::ask(const std::vector<std::string>& dead) {
  std::vector<std::optional<std::string_view>> dead_owners(dead.begin(), dead.end());
  std::vector<Call> calls;
  calls.push_back({sql::kLockShards, Parameters()});
  if (epoch_ == 0) {
    calls.push_back({sql::kRegister, Parameters(owner_, options_.lease.count(), options_.capacity,
                                                options_.whole, options_.row_claims, options_.name,
                                                host_name(), std::int64_t{getpid()}, stamp_)});
  }
  const std::size_t beat = calls.size();
  calls.push_back({sql::kBeat, Parameters(owner_)});
  calls.push_back({sql::kBury, Parameters(owner_, !failed_, dead_owners)});
  if (!options_.row_claims) calls.push_back({sql::kShare, Parameters(owner_, told_)});
  calls.push_back({sql::kTenure, Parameters(owner_)});
  calls.push_back({sql::kNeighbours, Parameters(host_name())});
  return read(database_.session().run_at_once(calls), beat);
}

Ownership::Answer Ownership::read(const std::vector<Result>& results, std::size_t beat) const {
  Answer answer;
  if (results[beat].rows() == 0) return answer;
  answer.epoch = results[beat].integer(0, 0);

  const Result& owned = results[results.size() - 2];
  for (int row = 0; row < owned.rows(); ++row) {
    const int shard = static_cast<int>(owned.integer(row, 0));
    const bool leaving = owned.integer(row, 1) != 0;
    (leaving ? answer.tenure.leaving : answer.tenure.shards).push_back(shard);
    const auto suspects = owned.optional_integer(row, 2);
    if (suspects && !leaving) {
      answer.tenure.inherited.push_back(
          {.shard = shard, .suspects = static_cast<std::size_t>(*suspects)});
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

// What was owned all the time need not be read from the beginning.
void Ownership::note_gains(const Tenure& tenure) {
  std::vector<int> owned = tenure.shards;
  owned.insert(owned.end(), tenure.leaving.begin(), tenure.leaving.end());
  for (const int shard : owned) {
    const bool had = std::find(owned_.begin(), owned_.end(), shard) != owned_.end();
    if (!had) gains_.gained(shard);
  }
  owned_ = std::move(owned);
}

void Ownership::release(int shard) {
  if (std::find(owned_.begin(), owned_.end(), shard) == owned_.end()) {
    throw MisuseError("shard " + std::to_string(shard) + " is not leaving: it is not owned");
  }
  database_.session().run_at_once(sql::kRelease, owner_, shard);
  std::erase(owned_, shard);
}

void Ownership::leave() {
  if (epoch_ == 0) return;
  const Call calls[] = {{sql::kLockShards, Parameters()},
                        {sql::kLeaveShards, Parameters(owner_)},
                        {sql::kLeave, Parameters(owner_)},
                        {sql::kUnclaimAll, Parameters(owner_)}};
  // Only one that claims rows has any to give back.
  const std::span<const Call> all(calls);
  database_.session().run_at_once(options_.row_claims ? all : all.first(3));
  epoch_ = 0;
  owned_.clear();
  told_.clear();
}

}  // namespace outbox::postgres
