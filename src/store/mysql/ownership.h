// Who may deliver which events.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/spi/store.h"
#include "store/common/shards.h"
#include "store/mysql/database.h"
#include "store/mysql/history.h"
#include "store/mysql/membership.h"
#include "store/mysql/registration.h"

namespace outbox::mysql {

// The instances that live, and the shards that they lease. There is no leader: each
// renewal evicts the dead, gives up what exceeds its own share and takes what is free
// up to it, and that settles within a few rounds. With row claims there is nothing to
// share: those instances only register, which keeps out one that would read all rows
// as its own, and stand by while there is such a one.
//
// A renewal that finds everything as it should be changes nothing but its own beat, by
// one statement. Changes are made in turns: in a transaction that locks all shards first.
// An instance that is stopped in the middle of one keeps the others from changes, but not from
// their beats, until the server gives its connection up; see Database::limit_idle().
//
// A renewal that finds another history of the database than the one it has registered in
// ends the epoch: what was read may name other events now.
//
// Used by one thread at a time.
class Ownership {
 public:
  Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner,
            ShardGenerations& gains);

  Lease renew();
  void release(int shard);
  void leave();

  // Thread-safe.
  const Registration& registration() const { return registration_; }
  std::int64_t epoch() const { return registration_.epoch(); }

 private:
  // What the tables say, and where they are.
  struct State {
    std::vector<Peer> peers{};  // by age
    std::vector<Shard> shards{};
    History history{};
  };

  bool beat();
  void forget();
  State look();
  Built look_at_shards(std::string_view purpose) const;
  bool settled(const State& state) const;
  State settle();
  template <class Change>
  bool if_possible(const Change& change);
  void enroll(Session& session);
  void register_anew(Session& session);
  void note_registration(const State& state);
  void evict_expired(Session& session, State& state);
  void apply(Session& session, const Changes& changes, State& state) const;
  bool is_dead(const Peer& peer) const;
  Changes wanted(const State& state) const;
  Lease lease_of(const State& state);
  void forget_told(State& state);
  void note_generations(const Lease& lease);

  // Constant after construction.
  const InstanceOptions options_;
  const std::string owner_;
  const std::string host_;
  const std::string stamp_;  // of this process
  ShardGenerations& generations_;

  Database database_;
  Registration registration_;
  std::int64_t epoch_ = 0;
  std::int64_t highest_epoch_ = 0;  // that this instance has ever had

  // Of the registration; a new one for each, but kept while it is not known whether it
  // happened.
  std::string registered_name_;

  // That it is registered in, as of the last renewal.
  History history_;

  std::vector<int> owned_;

  // Shards whose candidates renew() has told of, to be forgotten.
  std::vector<int> told_;

  // Whether this instance has heard from the server without a gap. After an outage
  // everybody's lease looks expired; the first one back must not evict the others
  // before they had a chance to renew.
  bool failed_ = false;
};

}  // namespace outbox::mysql
