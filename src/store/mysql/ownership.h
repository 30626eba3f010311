// Who may deliver which events: who ought to own which shards, who does, and rows of one's own
// without owning shards.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/mysql/facts.h"
#include "model/registration.h"
#include "model/shards.h"
#include "outbox/spi/store.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

// An instance that is alive, or not yet known to be dead.
struct Peer {
  std::int64_t epoch = 0;
  bool expired = false;  // its lease
  std::int64_t capacity = 0;
  bool exclusive = false;  // all shards or none
  bool claims = false;     // claims rows instead of shards
  std::string host{};
  std::int64_t pid = 0;
  std::string process{};
};

struct Shard {
  int number = 0;
  std::optional<std::int64_t> epoch{};  // of its owner
  bool draining = false;
  std::optional<std::int64_t> candidates{};
};

// What an instance changes to have its share.
struct Changes {
  std::vector<int> take{};   // free ones
  std::vector<int> leave{};  // to be drained
  std::vector<int> stay{};   // were being drained, and need not be any more

  bool empty() const { return take.empty() && leave.empty() && stay.empty(); }
};

// Shares are as even as whole shards allow, the oldest get one more; but the oldest that
// wants everything gets everything, and while the oldest of all claims rows nobody owns
// shards. `peers` are ordered by age, and have no dead among them.
std::size_t share_of(std::int64_t epoch, const std::vector<Peer>& peers);

Changes changes_for(std::int64_t epoch, std::size_t share, const std::vector<Shard>& shards);

// The live instances, and the shards that they lease. There is no leader: each
// renewal evicts the dead, gives up what exceeds its own share and takes what is free
// up to it, and that settles within a few rounds. With row claims there is nothing to
// share: those instances only register, which keeps out one that would read all rows
// as its own, and are standbys while there is such a one.
//
// A renewal that finds everything as it should be changes nothing but its own beat, by
// one statement. Changes are made in turns: in a transaction that locks all shards first.
// An instance that is stopped in the middle of one keeps the others from changes, but not from
// their beats, until the server gives its connection up; see Database::limit_idle().
//
// A renewal that finds another history of the database than the one it has registered in
// ends the epoch: rows that were read may be other events now.
//
// Used by one thread at a time.
class Ownership final : public RegisteredOwnership {
 public:
  Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner,
            ShardGenerations& gains);

  Lease renew() override;
  void release(int shard) override;
  void leave() override;
  std::optional<std::chrono::milliseconds> lease_duration() const override {
    return options_.lease;
  }
  const std::string& owner() const override { return owner_; }

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
  void register_as_new(Session& session);
  void note_registration(const State& state);
  void evict_expired(Session& session, State& state);
  void apply(Session& session, const Changes& changes, State& state) const;
  bool is_dead(const Peer& peer) const;
  Changes wanted(const State& state) const;
  Lease lease_of(const State& state);
  void forget_told(State& state);

  // Constant after construction.
  const InstanceOptions options_;
  const std::string owner_;
  const std::string host_;
  const std::string stamp_;  // of this process

  Database database_;
  std::int64_t epoch_ = 0;
  std::int64_t highest_epoch_ = 0;  // that this instance has ever had

  // Of the registration; a new one for each, but kept while it is not known whether it
  // happened.
  std::string registered_name_;

  // That it is registered in, as of the last renewal.
  History history_;

  OwnedShards owned_;

  // Shards whose candidates renew() has told of, to be forgotten.
  std::vector<int> told_;

  // Whether this instance has heard from the server without a gap. After an outage
  // everybody's lease looks expired; the first one back must not evict the others
  // before they had a chance to renew.
  bool failed_ = false;
};

// Claims rows and gives them back. Used by one thread at a time.
//
// Two claimers neither wait for each other nor get the same rows: each takes locks in
// the order of the index, as many as it claims, and passes over those of others. That
// takes READ COMMITTED, and one SELECT for each shard and kind: one that sorted would
// lock all that it sorts.
class Claims final : public Instance::Claims {
 public:
  Claims(Database& database, std::string owner, const InstanceOptions& options)
      : database_(database),
        owner_(std::move(owner)),
        row_claims_(options.row_claims),
        lock_timeout_(options.lock_timeout) {}

  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) override;
  void unclaim(std::span<const RowRef> rows) override;

 private:
  // Where there is something to claim.
  struct Place {
    int shard;
    bool due;  // has waited; else it was never tried
  };

  std::vector<Place> look_around(std::chrono::milliseconds skip_recent);
  Rows take(std::span<const Place> places, std::chrono::milliseconds skip_recent,
            const ReadLimit& limit);
  Built claimable(const Place& place, std::chrono::milliseconds skip_recent) const;

  Database& database_;
  const std::string owner_;
  const bool row_claims_;
  const std::chrono::milliseconds lock_timeout_;
  int begin_with_ = 0;
};

}  // namespace outbox::mysql
