#include "base/ulid.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <new>
#include <random>
#include <string>

#include "base/mutex.h"
#include "base/thread.h"
#include "outbox/event.h"

namespace outbox {

std::mt19937_64 seeded_generator() {
  std::array<unsigned, 16> words{};
  std::generate(words.begin(), words.end(), random_seed);
  std::seed_seq seed(words.begin(), words.end());
  return std::mt19937_64(seed);
}

namespace {

// The ids of the process: the one thing that its threads must agree on.
// Thread-safe.
//
// A fork is noticed by a handler, not by asking for the process id each time,
// which is a system call. The lock is taken across the fork, so that the child
// does not inherit it from a thread that it does not have.
class ProcessIds {
 public:
  static ProcessIds& instance() {
    // Never destroyed: ids may be wanted until the very end.
    static ProcessIds& ids = *new ProcessIds;
    return ids;
  }

  Ulid next(std::uint64_t ms) OUTBOX_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!seeded_) {
      random_ = seeded_generator();
      seeded_ = true;
    }
    last_ = next_ulid(last_, ms, random_);
    return last_;
  }

 private:
  ProcessIds() {
    if (pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
      throw std::bad_alloc();
    }
  }

  static void before_fork() OUTBOX_ACQUIRE(instance().mutex_) { instance().mutex_.lock(); }
  static void after_fork_in_parent() OUTBOX_RELEASE(instance().mutex_) {
    instance().mutex_.unlock();
  }
  static void after_fork_in_child() OUTBOX_RELEASE(instance().mutex_) {
    instance().part_from_parent();
    instance().mutex_.unlock();
  }

  // Counting on would give the parent's next ids: with the random part used up,
  // the next id takes a new one.
  void part_from_parent() OUTBOX_REQUIRES(mutex_) {
    seeded_ = false;
    last_.high = std::numeric_limits<std::uint16_t>::max();
    last_.low = std::numeric_limits<std::uint64_t>::max();
  }

  Mutex mutex_;
  bool seeded_ OUTBOX_GUARDED_BY(mutex_) = false;
  std::mt19937_64 random_ OUTBOX_GUARDED_BY(mutex_);
  Ulid last_ OUTBOX_GUARDED_BY(mutex_);
};

std::uint64_t ulid_ms(Time time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time).time_since_epoch().count();
  return std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(ms, 0)), kMaxUlidMs);
}

}  // namespace

UlidText encode(const Ulid& ulid) noexcept {
  static constexpr char kDigits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  UlidText text{};
  const auto write = [&text](std::size_t begin, std::size_t end, std::uint64_t bits) {
    for (std::size_t i = end; i-- > begin; bits >>= 5) text[i] = kDigits[bits & 31];
  };
  write(0, 10, ulid.ms);
  write(10, 18, std::uint64_t{ulid.high} << 24 | ulid.low >> 40);
  write(18, 26, ulid.low);
  return text;
}

std::string new_id(const Clock& clock) {
  const UlidText text = encode(ProcessIds::instance().next(ulid_ms(clock.now())));
  return {text.data(), text.size()};
}

}  // namespace outbox
