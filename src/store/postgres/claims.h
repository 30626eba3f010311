// Rows of one's own, without owning shards.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "outbox/spi/store.h"
#include "store/postgres/database.h"

namespace outbox::postgres {

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
