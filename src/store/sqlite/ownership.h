// Who may deliver the events of the table.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "outbox/spi/store.h"
#include "store/sqlite/broken_rows.h"
#include "store/sqlite/database.h"
#include "store/sqlite/owner_lock.h"

namespace outbox::sqlite {

// Elects one owner among the processes by a lock on a side file, and counts the
// owners in an epoch, by which updates are fenced. With row claims there is
// nothing to elect: instances share the lock, which keeps out one that would
// read all rows as its own.
//
// Used by one thread at a time, but for epoch().
class Ownership {
 public:
  Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner);

  // Owns nothing once the file was deleted or replaced, and throws PermanentError from then on
  // until it is back.
  Lease renew();
  void leave();

  static std::string lock_file(const StoreConfig& config);

  // 0 while it owns nothing. Thread-safe.
  std::int64_t epoch() const { return epoch_.load(); }

 private:
  bool still_owner();
  Lease take_over();
  void give_claims_back();
  bool lost_the_file();
  void drop();

  // Constant after construction.
  const InstanceOptions options_;
  const std::string owner_;

  Database database_;
  OwnerLock lock_;
  std::atomic<std::int64_t> epoch_{0};
  std::int64_t last_epoch_ = 0;

  BrokenRowsReport broken_;

  bool file_is_gone_ = false;

  // From a dead owner, until renew() has told of it.
  std::optional<Lease::Inherited> inherited_;
};

}  // namespace outbox::sqlite
