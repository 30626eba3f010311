// Who may deliver which events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/registration.h"
#include "model/shards.h"
#include "outbox/clock.h"
#include "outbox/spi/store.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// The live instances, and the shards that they lease. There is no leader: each
// renewal evicts the dead, gives up what exceeds its own share and takes what is free
// up to it, and that settles within a few rounds. With row claims there is nothing to
// share: those instances only register, which keeps out one that would read all rows
// as its own, and are standbys while there is such a one.
//
// Used by one thread at a time.
class Ownership {
 public:
  Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner,
            ShardGenerations& gains);

  Lease renew();
  void release(int shard);
  void leave();

  const Registration& registration() const { return registration_; }
  std::int64_t epoch() const { return registration_.epoch(); }

 private:
  // What one renewal was told.
  struct Answer {
    std::int64_t epoch = 0;     // 0: not registered
    bool lost_history = false;  // of the server, since the registration
    Lease lease{};
    std::vector<std::string> dead_neighbours{};
    bool shards_owned = false;
    bool claims_rule = false;  // the oldest instance claims rows
  };

  Answer beat();
  Answer ask(const std::vector<std::string>& dead);
  Answer read(const std::vector<Result>& results, std::size_t beat) const;
  void add_leave(std::vector<Call>& calls) const;
  bool tells_history();
  void start_over();

  // Constant after construction.
  const InstanceOptions options_;
  const std::string owner_;
  const std::string stamp_;  // of this process

  Database database_;
  std::int64_t epoch_ = 0;       // 0: not registered
  std::int64_t last_epoch_ = 0;  // that it ever had
  bool registered_ = false;      // or may be, as far as it knows
  OwnedShards owned_;

  // Its place is the server's timeline then; and whether the one of this connection tells.
  Registration registration_;
  bool tells_history_ = true;
  std::uint64_t asked_on_ = 0;  // Database::connections()

  // Poison candidates that renew() has told of, to be forgotten.
  std::vector<std::int64_t> told_;

  // Whether this instance has heard from the server without a gap. After an outage
  // everybody's lease looks expired; the first one back must not evict the others
  // before they had a chance to renew.
  bool failed_ = false;
};

// Claims rows and gives them back. Used by one thread at a time.
class Claims {
 public:
  Claims(Database& database, std::string owner, std::chrono::milliseconds lock_timeout)
      : database_(database), owner_(std::move(owner)), lock_timeout_(lock_timeout) {}

  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit);
  void unclaim(std::span<const RowRef> rows);

 private:
  Database& database_;
  const std::string owner_;
  const std::chrono::milliseconds lock_timeout_;
  int begin_with_ = 0;
};

}  // namespace outbox::postgres
