// Which instance owns which shard, for how long.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "outbox/clock.h"
#include "outbox/spi/store.h"

namespace outbox::memory {

// Names an instance; never given twice. 0 is nobody.
using MemberId = std::int64_t;

// The instances that live, and the shards that they lease: what a database
// server keeps in outbox_instance and outbox_shard. There is no leader: each
// renewal evicts the dead, gives up what exceeds its own share and takes what
// is free up to it, and that settles within a few rounds.
//
// Not thread-safe; the store's mutex guards it.
class Members {
 public:
  explicit Members(int shards) : shards_(static_cast<std::size_t>(shards)) {}

  MemberId new_id() { return ++last_id_; }

  // What is given out from now on is above what another server may have given out that had the
  // same past.
  void begin_new_history() {
    last_id_ += kHistory;
    last_epoch_ += kHistory;
  }

  // For those who claim rows: they register, and own no shards.
  std::int64_t new_epoch() { return ++last_epoch_; }

  Lease renew(MemberId id, const InstanceOptions& options, Time now);
  void release(MemberId id, int shard);
  void leave(MemberId id);

  // Those that have joined and not left, by age; the dead until somebody
  // evicts them.
  std::vector<outbox::Member> list(Time now) const;

  // A member that was declared dead is gone until it registers anew, with a
  // greater epoch; so to be here is to have a valid epoch.
  bool holds(MemberId id, std::int64_t epoch) const {
    const auto member = live_.find(id);
    return member != live_.end() && member->second.epoch == epoch;
  }

  bool owns(MemberId id, int shard) const {
    return shard >= 0 && static_cast<std::size_t>(shard) < shards_.size() &&
           shards_[static_cast<std::size_t>(shard)].owner == id;
  }

 private:
  struct Member {
    // From one counter, at registration: sorts the members by age as well.
    std::int64_t epoch = 0;
    std::string name{};
    Time registered_at{};
    Time beat{};
    std::size_t capacity = 0;
    std::chrono::milliseconds lease{};
    bool exclusive = false;

    bool expired(Time now) const { return beat + lease < now; }
  };

  struct Shard {
    MemberId owner = 0;
    bool draining = false;

    // The last owner died with so many events in its hands.
    std::optional<std::size_t> candidates{};
  };

  static constexpr std::int64_t kHistory = 1'000'000;

  void evict_expired(Time now);
  std::size_t quota(const Member& member) const;

  std::int64_t last_epoch_ = 0;
  MemberId last_id_ = 0;
  std::map<MemberId, Member> live_;
  std::vector<Shard> shards_;
};

}  // namespace outbox::memory
