// Who may deliver which events.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  std::vector<Result> renewed(const std::vector<Call>& calls);
  [[noreturn]] void refuse_to_register();
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

  // The place of the registration is the server's timeline; whether that of this connection tells.
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
  Database& database_;
  const std::string owner_;
  const bool row_claims_;
  const std::chrono::milliseconds lock_timeout_;
  int begin_with_ = 0;
};

}  // namespace outbox::postgres
