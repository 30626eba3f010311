// Row claims: owning events one by one.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "outbox/spi/store.h"
#include "store/sqlite/database.h"

namespace outbox::sqlite {

// Claims rows by writing the owner into them. Used by one thread at a time.
class Claims {
 public:
  Claims(Database& database, std::string owner, std::chrono::milliseconds lock_timeout)
      : database_(database), owner_(std::move(owner)), lock_timeout_(lock_timeout) {}

  Rows claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit);
  void unclaim(std::span<const RowRef> rows);

 private:
  // Which rows may be claimed, as of one moment.
  struct Candidates {
    Time now;
    std::int64_t expired;  // locks up to here
    std::int64_t created;  // events up to here
  };

  Candidates candidates(std::chrono::milliseconds skip_recent) const;
  bool any(const Candidates& which);
  void read(const Candidates& which, const ReadLimit& limit, Rows& result);

  Database& database_;
  const std::string owner_;
  const std::chrono::milliseconds lock_timeout_;
};

}  // namespace outbox::sqlite
