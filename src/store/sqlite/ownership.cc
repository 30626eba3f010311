#include "store/sqlite/ownership.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/process.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sql.h"

namespace outbox::sqlite {

std::string Ownership::lock_file(const StoreConfig& config) {
  return config.file + "-" + config.options.table + ".owner";
}

Ownership::Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner)
    : options_(options),
      owner_(std::move(owner)),
      database_(config),
      lock_(lock_file(*config), config->file) {}

Lease Ownership::renew() {
  database_.config().check_process();
  if (lost_the_file()) return {};
  if (lock_.held() && !still_owner()) drop();
  if (!lock_.held()) {
    const auto mode = options_.row_claims ? OwnerLock::Mode::shared : OwnerLock::Mode::exclusive;
    if (!lock_.try_lock(mode)) return {};
    try {
      Lease lease = take_over();
      broken_.look(database_);
      return lease;
    } catch (...) {
      drop();
      throw;
    }
  }
  broken_.look(database_);
  return {.epoch = epoch_, .shards = options_.row_claims ? std::vector<int>{} : std::vector{0}};
}

// Told once by a lease that owns nothing, so that whatever was read is dropped; the lock is
// given back to those who have the file that is there now.
bool Ownership::lost_the_file() {
  const StoreConfig& config = database_.config();
  const bool was_gone = std::exchange(file_is_gone_, config.file_is_gone());
  if (!file_is_gone_) return false;
  if (was_gone) config.check_file();
  if (lock_.held()) drop();
  return true;
}

bool Ownership::still_owner() {
  if (!lock_.in_place()) return false;
  return options_.row_claims || database_.integer(sql::kEpoch) == epoch_;
}

Lease Ownership::take_over() {
  if (options_.row_claims) {
    epoch_ = ++last_epoch_;
    return {.epoch = epoch_};
  }
  WriteTransaction transaction(database_);
  {
    Run last(database_[sql::kOwner]);
    if (last.step()) {
      last_epoch_ = std::max(last_epoch_, last.integer(0));
      const bool clean = last.integer(1) != 0;
      // An unclean row of our own is a lease that we lost or never got to
      // know of; this process is alive, so its events have killed nobody.
      if (!clean && last.text(2) != owner_) {
        inherited_ =
            Lease::Inherited{.shard = 0, .candidates = static_cast<std::size_t>(last.integer(3))};
      }
    }
  }
  database_.execute(sql::kTakeOver, last_epoch_ + 1, owner_, options_.capacity, options_.name,
                    host_name(), std::int64_t{getpid()}, micros(database_.config().now()));
  transaction.commit();
  epoch_ = ++last_epoch_;

  Lease lease{.epoch = epoch_, .shards = {0}};
  if (inherited_) lease.inherited.push_back(*std::exchange(inherited_, std::nullopt));
  return lease;
}

void Ownership::leave() {
  database_.config().check_process();
  if (database_.config().file_is_gone()) {
    // There is nothing to give back; nobody will look into that file.
  } else if (options_.row_claims) {
    give_claims_back();
  } else if (lock_.held()) {
    WriteTransaction transaction(database_);
    database_.execute(sql::kLeave, epoch_.load());
    transaction.commit();
  }
  drop();
}

void Ownership::give_claims_back() {
  // The search may be long; it needs no lock, because nobody else claims in
  // our name.
  std::vector<Seq> claimed;
  {
    Run run(database_[sql::kClaimedBy], owner_);
    while (run.step()) claimed.push_back(run.integer(0));
  }
  if (claimed.empty()) return;
  const std::string list = seq_list(claimed);
  WriteTransaction transaction(database_);
  database_.execute(sql::kUnclaim, list, owner_);
  transaction.commit();
}

void Ownership::drop() {
  epoch_ = 0;
  lock_.unlock();
}

}  // namespace outbox::sqlite
