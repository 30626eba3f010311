#include "store/sqlite/ownership.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "base/process.h"
#include "outbox/error.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sql.h"

namespace outbox::sqlite {

OwnerLock::OwnerLock(std::string path, const std::string& database_file)
    : path_(std::move(path)), pid_(getpid()) {
  struct stat database {};
  permissions_ = stat(database_file.c_str(), &database) == 0 ? database.st_mode & 0666 : 0644;
}

bool OwnerLock::try_lock(Mode mode) {
  const int how = (mode == Mode::exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  for (;;) {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, permissions_);
    if (descriptor_ < 0) {
      const std::string message =
          "cannot open the lock file '" + path_ + "': " + std::strerror(errno);
      if (errno == EMFILE || errno == ENFILE) throw RetryableError(message);
      throw PermanentError(message + "; this process must be able to write in the folder");
    }
    if (flock(descriptor_, how) != 0) {
      const int error = errno;
      unlock();
      if (error == EWOULDBLOCK || error == EINTR) return false;
      throw RetryableError("cannot lock '" + path_ + "': " + std::strerror(error));
    }
    // Deleted between open() and flock(): lock the one that is there now.
    if (in_place()) return true;
    unlock();
  }
}

bool OwnerLock::in_place() const {
  struct stat locked {};
  struct stat present {};
  return fstat(descriptor_, &locked) == 0 && stat(path_.c_str(), &present) == 0 &&
         locked.st_dev == present.st_dev && locked.st_ino == present.st_ino;
}

void OwnerLock::unlock() noexcept {
  if (!held()) return;
  // Explicitly, because a forked child may have the file open as well; and not
  // in that child, because the lock is the parent's.
  if (getpid() == pid_) flock(descriptor_, LOCK_UN);
  close(descriptor_);
  descriptor_ = -1;
}

bool OwnerLock::is_held_exclusively(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool held = flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(descriptor);  // and with it the lock
  return held;
}

std::string Ownership::lock_file(const StoreConfig& config) {
  return config.file + "-" + config.options.table + ".owner";
}

Ownership::Ownership(StoreConfigPtr config, const InstanceOptions& options, std::string owner)
    : options_(options),
      owner_(std::move(owner)),
      database_(config),
      lock_(lock_file(*config), config->file) {}

Lease Ownership::renew() {
  config_of(database_).check_process();
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
  const StoreConfig& config = config_of(database_);
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
                    host_name(), std::int64_t{getpid()}, micros(config_of(database_).now()));
  transaction.commit();
  epoch_ = ++last_epoch_;

  Lease lease{.epoch = epoch_, .shards = {0}};
  if (inherited_) lease.inherited.push_back(*std::exchange(inherited_, std::nullopt));
  return lease;
}

void Ownership::leave() {
  config_of(database_).check_process();
  if (config_of(database_).file_is_gone()) {
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

Rows Claims::claim(std::chrono::milliseconds skip_recent, const ReadLimit& limit) {
  Rows result;
  // An idle claimer must not stand in the writers' way.
  if (limit.rows == 0 || !any(candidates(skip_recent))) return result;

  WriteTransaction transaction(database_);
  // Asked again: the wait for the writers may have been long, and a claim that
  // begins in the past would be over before its time.
  const Candidates which = candidates(skip_recent);
  read(which, limit, result);
  std::vector<Seq> seqs;
  seqs.reserve(result.rows.size());
  for (const Row& row : result.rows) seqs.push_back(row.ref.seq);
  const std::string list = seq_list(seqs);
  std::set<Seq> locked;
  {
    Run run(database_[sql::kLocked], list);
    while (run.step()) locked.insert(run.integer(0));
  }
  database_.execute(sql::kClaim, owner_, micros(which.now), list);
  transaction.commit();

  for (Row& row : result.rows) row.reclaimed = locked.contains(row.ref.seq);
  std::sort(result.rows.begin(), result.rows.end(),
            [](const Row& a, const Row& b) { return a.ref.seq < b.ref.seq; });
  return result;
}

Claims::Candidates Claims::candidates(std::chrono::milliseconds skip_recent) const {
  const Time now = config_of(database_).now();
  // Of events that occurred before the clock was set back only `skip_recent` may ask when.
  return {.now = now,
          .expired = micros(now - lock_timeout_),
          .created = skip_recent.count() == 0 ? std::numeric_limits<std::int64_t>::max()
                                              : micros(now - skip_recent)};
}

bool Claims::any(const Candidates& which) {
  return Run(database_[sql::kClaimableReady], which.expired, which.created, 1).step() ||
         Run(database_[sql::kClaimableDue], which.expired, which.created, 1, hold_until(which.now))
             .step();
}

void Claims::read(const Candidates& which, const ReadLimit& limit, Rows& result) {
  const StoreConfig& config = config_of(database_);
  ByteBudget budget(limit);
  // First what has waited once before, so that a long backlog of fresh rows
  // cannot starve it.
  {
    Run due(database_[sql::kClaimableDue], which.expired, which.created, one_more(limit.rows),
            hold_until(which.now));
    result.more = decode_rows(due, config, limit.rows, budget, result.rows);
  }
  if (result.more) return;
  Run ready(database_[sql::kClaimableReady], which.expired, which.created,
            one_more(limit.rows - result.rows.size()));
  result.more = decode_rows(ready, config, limit.rows, budget, result.rows);
}

void Claims::unclaim(std::span<const RowRef> rows) {
  if (rows.empty()) return;
  std::vector<Seq> seqs;
  seqs.reserve(rows.size());
  for (const RowRef& row : rows) seqs.push_back(row.seq);
  const std::string list = seq_list(seqs);
  WriteTransaction transaction(database_);
  database_.execute(sql::kUnclaim, list, owner_);
  transaction.commit();
}

}  // namespace outbox::sqlite
