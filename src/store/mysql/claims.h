// Rows of one's own, without owning shards.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "outbox/spi/store.h"
#include "store/mysql/database.h"

namespace outbox::mysql {

// Claims rows and gives them back. Used by one thread at a time.
//
// Two claimers neither wait for each other nor get the same rows: each takes locks in
// the order of the index, as many as it claims, and passes over those of others. That
// takes READ COMMITTED, and one SELECT for each shard and kind: one that sorted would
// lock all that it sorts.
class Claims {
 public:
  Claims(Database& database, std::string owner, std::chrono::milliseconds lock_timeout)
      : database_(database), owner_(std::move(owner)), lock_timeout_(lock_timeout) {}

  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit);
  void unclaim(std::span<const RowRef> rows);

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
  const std::chrono::milliseconds lock_timeout_;
  int begin_with_ = 0;
};

}  // namespace outbox::mysql
