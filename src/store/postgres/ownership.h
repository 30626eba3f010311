// Who may deliver which events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "outbox/clock.h"
#include "outbox/spi/store.h"
#include "store/common/shards.h"
#include "store/postgres/database.h"
#include "store/postgres/registered_history.h"

namespace outbox::postgres {

// The instances that live, and the shards that they lease. There is no leader: each
// renewal evicts the dead, gives up what exceeds its own share and takes what is free
// up to it, and that settles within a few rounds. With row claims there is nothing to
// share: those instances only register, which keeps out one that would read all rows
// as its own, and stand by while there is such a one.
//
// Used by one thread at a time.
class Ownership {
 public:
  Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner,
            ShardGenerations& gains);

  Lease renew();
  void release(int shard);
  void leave();

  const RegisteredHistory& history() const { return history_; }
  std::int64_t epoch() const { return history_.epoch(); }

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
  void add_leaving(std::vector<Call>& calls) const;
  bool tells_history();
  void begin_anew();
  void note_generations(const Lease& lease);

  // Constant after construction.
  const InstanceOptions options_;
  const std::string owner_;
  const std::string stamp_;  // of this process
  ShardGenerations& generations_;

  Database database_;
  std::int64_t epoch_ = 0;       // 0: not registered
  std::int64_t last_epoch_ = 0;  // that it ever had
  bool registered_ = false;      // or may be, as far as it knows
  std::vector<int> owned_;

  // The server's timeline at the registration; and whether the one of this connection tells.
  RegisteredHistory history_;
  bool tells_history_ = true;
  std::uint64_t asked_on_ = 0;  // Database::connections()

  // Poison candidates that renew() has told of, to be forgotten.
  std::vector<std::int64_t> told_;

  // Whether this instance has heard from the server without a gap. After an outage
  // everybody's lease looks expired; the first one back must not evict the others
  // before they had a chance to renew.
  bool failed_ = false;
};

}  // namespace outbox::postgres
