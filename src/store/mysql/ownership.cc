#include "store/mysql/ownership.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/process.h"
#include "client/mysql/database.h"
#include "model/instance_options.h"
#include "model/shards.h"
#include "outbox/error.h"
#include "store/mysql/connection.h"
#include "store/mysql/reader.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {

std::size_t share_of(std::int64_t epoch, const std::vector<Peer>& peers) {
  if (peers.empty() || peers.front().claims) return 0;
  std::vector<const Peer*> owners;
  for (const Peer& peer : peers) {
    if (!peer.claims) owners.push_back(&peer);
  }
  const auto wants_all = [](const Peer* peer) { return peer->exclusive; };
  const auto sole = std::find_if(owners.begin(), owners.end(), wants_all);
  if (sole != owners.end()) return (*sole)->epoch == epoch ? kShards : 0;
  const auto me = std::find_if(owners.begin(), owners.end(),
                               [&](const Peer* peer) { return peer->epoch == epoch; });
  if (me == owners.end()) return 0;
  const auto rank = static_cast<std::size_t>(me - owners.begin());
  return kShards / owners.size() + (rank < kShards % owners.size() ? 1 : 0);
}

Changes changes_for(std::int64_t epoch, std::size_t share, const std::vector<Shard>& shards) {
  // First what is owned, of that first what is not being drained; then what is free.
  std::vector<Shard> candidates;
  for (const Shard& shard : shards) {
    if (!shard.epoch || *shard.epoch == epoch) candidates.push_back(shard);
  }
  std::sort(candidates.begin(), candidates.end(), [](const Shard& a, const Shard& b) {
    return std::tuple(!a.epoch, a.draining, a.number) < std::tuple(!b.epoch, b.draining, b.number);
  });
  Changes changes;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Shard& shard = candidates[i];
    const bool mine = i < share;
    if (!shard.epoch) {
      if (mine) changes.take.push_back(shard.number);
    } else if (mine == shard.draining) {
      (mine ? changes.stay : changes.leave).push_back(shard.number);
    }
  }
  return changes;
}

namespace {

// Of Ownership::look_at_shards().
constexpr int kHistoryColumn = 4;

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A renewal that takes longer than this has failed: there must be time for another
// one within the lease.
milliseconds call_limit(milliseconds lease) {
  return std::clamp(lease / 3, milliseconds{1'000}, milliseconds{10'000});
}

std::vector<Peer> peers_in(const Result& rows) {
  std::vector<Peer> peers;
  peers.reserve(static_cast<std::size_t>(rows.rows()));
  for (int row = 0; row < rows.rows(); ++row) {
    peers.push_back({.epoch = rows.integer(row, 0),
                     .expired = rows.integer(row, 1) != 0,
                     .capacity = rows.integer(row, 2),
                     .exclusive = rows.integer(row, 3) != 0,
                     .claims = rows.integer(row, 4) != 0,
                     .host = std::string(rows.text(row, 5)),
                     .pid = rows.integer(row, 6),
                     .process = std::string(rows.text(row, 7))});
  }
  return peers;
}

std::vector<Shard> shards_in(const Result& rows) {
  std::vector<Shard> shards;
  shards.reserve(static_cast<std::size_t>(rows.rows()));
  for (int row = 0; row < rows.rows(); ++row) {
    if (!is_shard(rows.integer(row, 0))) continue;
    shards.push_back({.number = static_cast<int>(rows.integer(row, 0)),
                      .epoch = rows.optional_integer(row, 1),
                      .draining = rows.integer(row, 2) != 0,
                      .candidates = rows.optional_integer(row, 3)});
  }
  return shards;
}

}  // namespace

Ownership::Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner,
                     ShardGenerations& gains)
    : options_(options),
      owner_(std::move(owner)),
      host_(host_name()),
      stamp_(process_stamp()),
      database_(std::move(config)),
      owned_(gains) {
  database_.limit_calls(call_limit(options_.lease));
  database_.limit_idle(options_.lease);
  database_.stay_young();
}

Lease Ownership::renew() {
  State state;
  try {
    // An instance that is no longer registered was considered dead: it registers again, with
    // another epoch.
    if (epoch_ != 0 && !beat()) forget();
    if (epoch_ != 0) {
      state = look();
      if (history_.ends_before(state.history)) {
        ++config_of(database_).histories;
        leave();  // with what this server knows of it
      }
    }
    if (epoch_ == 0) {
      state = settle();
      note_registration(state);
    } else {
      history_ = state.history;
      const bool possible = if_possible([&] { forget_told(state); });
      if (possible && !settled(state)) if_possible([&] { state = settle(); });
    }
  } catch (...) {
    failed_ = true;
    throw;
  }
  failed_ = false;
  return lease_of(state);
}

bool Ownership::beat() {
  return retry_on_deadlock(database_, [&] {
           return database_.run(sql::kBeat, epoch_, registered_name_);
         }).changed() == 1;
}

void Ownership::forget() {
  epoch_ = 0;
  registered_name_.clear();
  history_ = {};
  registration_.clear();
  owned_.clear();
  told_.clear();
}

// The connections that were made before may lead elsewhere.
void Ownership::note_registration(const State& state) {
  history_ = state.history;
  highest_epoch_ = std::max(highest_epoch_, epoch_);
  registration_.set(epoch_, registered_name_, history_.server);
  ++config_of(database_).registrations;
  database_.is_new_enough();
}

void Ownership::forget_told(State& state) {
  if (told_.empty()) return;
  const Built statement(sql::kForgetCandidates, config_of(database_), epoch_, told_, epoch_,
                        registered_name_);
  retry_on_deadlock(database_, [&] { return database_.run(statement); });
  for (const int number : told_) state.shards[static_cast<std::size_t>(number)].candidates.reset();
  told_.clear();
}

// With what tells which history this is, so that no answer comes from another one.
Built Ownership::look_at_shards(std::string_view purpose) const {
  Built history(purpose, config_of(database_));
  History::append_columns(history, database_.facts(), history_);
  return {{purpose, sql::kLookAtShards}, config_of(database_), history};
}

Ownership::State Ownership::look() {
  database_.ensure_connected();
  const Result shards = database_.run(look_at_shards("look at the shards"));
  return {.peers = peers_in(database_.run(sql::kInstances)),
          .shards = shards_in(shards),
          .history = History::of(shards, kHistoryColumn)};
}

bool Ownership::is_dead(const Peer& peer) const {
  if (peer.epoch == epoch_) return false;
  return (peer.expired && !failed_) ||
         (peer.host == host_ && is_certainly_dead(peer.pid, peer.process));
}

Changes Ownership::wanted(const State& state) const {
  if (options_.row_claims) return {};
  return changes_for(epoch_, share_of(epoch_, state.peers), state.shards);
}

bool Ownership::settled(const State& state) const {
  const bool any_dead = std::any_of(state.peers.begin(), state.peers.end(),
                                    [&](const Peer& peer) { return is_dead(peer); });
  return !any_dead && wanted(state).empty();
}

// Somebody who was stopped in the middle of a change keeps its locks for a while. Until
// then everything stays as it is, which is what the lease was renewed for.
template <class Change>
bool Ownership::if_possible(const Change& change) {
  try {
    change();
    return true;
  } catch (const RetryableError&) {
    if (!database_.healthy()) throw;
    return false;
  }
}

// In turns with all others that change something.
Ownership::State Ownership::settle() {
  const std::int64_t before = epoch_;
  try {
    return retry_on_deadlock(database_, [&] {
      epoch_ = before;
      Session& session = database_.session();
      return in_transaction(session, [&] {
        State state;
        const Result shards =
            session.run(look_at_shards("lock the shards to change ownership").sql(" FOR UPDATE"));
        state.shards = shards_in(shards);
        state.history = History::of(shards, kHistoryColumn);
        if (epoch_ == 0) {
          enroll(session);
        } else if (session.run(sql::kLives, epoch_, registered_name_).rows() == 0) {
          throw RetryableError("this instance is no longer registered (" +
                               config_of(database_).description +
                               "): it registers again with its next renewal");
        }
        state.peers = peers_in(session.run(sql::kInstances));
        evict_expired(session, state);
        apply(session, wanted(state), state);
        return state;
      });
    });
  } catch (...) {
    epoch_ = before;
    throw;
  }
}

void Ownership::enroll(Session& session) {
  if (registered_name_.empty()) registered_name_ = owner_ + "#" + unique_owner({});
  // It may have registered before and not have heard that it did.
  const Result known = session.run(sql::kFindSelf, registered_name_);
  if (known.rows() > 0) {
    epoch_ = known.integer(0, 0);
  } else {
    register_as_new(session);
  }
}

void Ownership::register_as_new(Session& session) {
  const std::int64_t next = session.run(sql::kNextEpoch).insert_id();
  session.run(sql::kEvict, next);
  epoch_ = std::max({next, session.run(sql::kLowestEpoch).integer(0, 0), highest_epoch_ + 1});
  session.run(sql::kRegister, registered_name_, microseconds(options_.lease).count(),
              options_.capacity, options_.exclusive, options_.row_claims, options_.name, host_,
              std::int64_t{getpid()}, stamp_, epoch_);
}

void Ownership::evict_expired(Session& session, State& state) {
  std::erase_if(state.peers, [&](const Peer& peer) {
    if (!is_dead(peer)) return false;
    // One that only looks dead may have renewed its lease since.
    const bool certain = !peer.expired || failed_;
    const Result evicted = session.run(certain ? sql::kEvict : sql::kEvictExpired, peer.epoch);
    if (evicted.changed() == 0) return false;
    session.run(sql::kInherit, peer.capacity, peer.epoch);
    for (Shard& shard : state.shards) {
      if (shard.epoch != peer.epoch) continue;
      shard = {.number = shard.number,
               .candidates = std::max(shard.candidates.value_or(0), peer.capacity)};
    }
    return true;
  });
}

void Ownership::apply(Session& session, const Changes& changes, State& state) const {
  const auto set = [&](const std::vector<int>& shards, bool draining) {
    if (shards.empty()) return;
    session.run(Built(sql::kShareOut, config_of(database_), epoch_, draining, shards));
    for (const int number : shards) {
      Shard& shard = state.shards[static_cast<std::size_t>(number)];
      shard.epoch = epoch_;
      shard.draining = draining;
    }
  };
  set(changes.take, false);
  set(changes.stay, false);
  set(changes.leave, true);
}

Lease Ownership::lease_of(const State& state) {
  if (options_.row_claims) {
    const bool shards_owned =
        std::any_of(state.shards.begin(), state.shards.end(),
                    [](const Shard& shard) { return shard.epoch.has_value(); });
    const bool claims_rule = !state.peers.empty() && state.peers.front().claims;
    return {.epoch = shards_owned || !claims_rule ? 0 : epoch_};
  }
  Lease lease;
  for (const Shard& shard : state.shards) {
    if (shard.epoch != epoch_) continue;
    (shard.draining ? lease.draining : lease.shards).push_back(shard.number);
    const bool was_told = std::find(told_.begin(), told_.end(), shard.number) != told_.end();
    if (shard.candidates && !shard.draining && !was_told) {
      lease.inherited.push_back(
          {.shard = shard.number, .candidates = static_cast<std::size_t>(*shard.candidates)});
      told_.push_back(shard.number);
    }
  }
  owned_.set(lease);
  const bool standby = lease.shards.empty() && lease.draining.empty();
  lease.epoch = standby ? 0 : epoch_;
  return lease;
}

void Ownership::release(int shard) {
  owned_.check(shard);
  retry_on_deadlock(database_, [&] {
    return database_.run(sql::kRelease, shard, epoch_, epoch_, registered_name_);
  });
  owned_.erase(shard);
  std::erase(told_, shard);
}

void Ownership::leave() {
  if (epoch_ == 0) return;
  // Only one that claims rows has any to give back.
  if (options_.row_claims) {
    retry_on_deadlock(database_, [&] { return database_.run(sql::kUnclaimAll, owner_); });
  }
  retry_on_deadlock(database_, [&] {
    Session& session = database_.session();
    return in_transaction(session, [&] {
      session.run(look_at_shards("lock the shards to leave").sql(" FOR UPDATE"));
      const bool was_registered = session.run(sql::kLeave, epoch_, registered_name_).changed() == 1;
      if (was_registered) session.run(sql::kLeaveShards, epoch_);
      return was_registered;
    });
  });
  forget();
}

Rows Claims::claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) {
  require_row_claims(row_claims_);
  if (limit.rows == 0) return {};
  const std::vector<Place> places = look_around(skip_recent);
  if (places.empty()) return {};
  return retry_on_deadlock(database_, [&] { return take(places, skip_recent, limit); });
}

// What has waited once before comes first, so that a long backlog of fresh rows cannot
// starve it. Each time another shard comes first, or a long one would starve the others.
std::vector<Claims::Place> Claims::look_around(std::chrono::milliseconds skip_recent) {
  std::vector<Place> all;
  for (const bool due : {true, false}) {
    for (int i = 0; i < kShards; ++i) all.push_back({(begin_with_ + i) % kShards, due});
  }
  begin_with_ = (begin_with_ + 1) % kShards;
  Built look(sql::kClaimPlace.purpose, config_of(database_));
  for (const Place& place : all) {
    if (&place != &all.front()) look.sql(" UNION ALL ");
    look.fill(sql::kClaimPlace.text, &place - all.data(), claimable(place, skip_recent));
  }
  const Result found = database_.run(look);
  std::vector<Place> places;
  places.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) {
    places.push_back(all[static_cast<std::size_t>(found.integer(row, 0))]);
  }
  return places;
}

Built Claims::claimable(const Place& place, std::chrono::milliseconds skip_recent) const {
  const StoreConfig& config = config_of(database_);
  const auto micros = [](std::chrono::milliseconds duration) { return duration.count() * 1'000; };
  Built older(sql::kClaimable.purpose, config);
  if (skip_recent.count() > 0) older.fill(sql::kOlder.text, micros(skip_recent));
  return {sql::kClaimable,       config, place.shard, place.due ? sql::kDueNow : sql::kReadyNow,
          micros(lock_timeout_), older};
}

Rows Claims::take(std::span<const Place> places, std::chrono::milliseconds skip_recent,
                  const ReadLimit& limit) {
  Session& session = database_.session();
  return in_transaction(session, [&] {
    Rows result;
    std::vector<Row>& rows = result.rows;
    ByteBudget budget(limit);
    for (const Place& place : places) {
      result.more = result.more || rows.size() == limit.rows || budget.spent();
      if (result.more) break;
      const Result found = session.run(
          Built(sql::kToClaim, config_of(database_), claimable(place, skip_recent),
                SqlPart{place.due ? "hold DESC, seq DESC" : "seq"}, limit.rows - rows.size()));
      // Locked as they are, none of them can be gone when its payload is read.
      const std::size_t before = rows.size();
      result.more = decode_light_rows(session, found, all_of(found), budget, rows);
      for (std::size_t i = before; i < rows.size(); ++i) {
        rows[i].reclaimed = found.integer(static_cast<int>(i - before), kLightColumns) != 0;
      }
    }
    result.more = result.more || rows.size() == limit.rows;
    if (rows.empty()) return result;
    std::vector<Seq> seqs;
    seqs.reserve(rows.size());
    for (const Row& row : rows) seqs.push_back(row.ref.seq);
    in_portions<Seq>(session, seqs, [&](std::span<const Seq> part) {
      session.run(Built(sql::kClaim, config_of(database_), owner_, part));
    });
    std::sort(rows.begin(), rows.end(),
              [](const Row& a, const Row& b) { return a.ref.seq < b.ref.seq; });
    return result;
  });
}

void Claims::unclaim(std::span<const RowRef> rows) {
  if (rows.empty()) return;
  std::vector<Seq> seqs;
  seqs.reserve(rows.size());
  for (const RowRef& row : rows) seqs.push_back(row.seq);
  in_portions<Seq>(database_.session(), seqs, [&](std::span<const Seq> part) {
    const Built statement(sql::kUnclaim, config_of(database_), part, owner_);
    retry_on_deadlock(database_, [&] { return database_.run(statement); });
  });
}

}  // namespace outbox::mysql
