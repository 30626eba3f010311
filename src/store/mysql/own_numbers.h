// What writers of this process insert, for a watch that need not call because of it.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>

#include "base/mutex.h"
#include "outbox/spi/store.h"

namespace outbox::mysql {

// The numbers of rows of which a watch hears from their writers (InsertOptions::told), noted before
// anybody can see them. They are forgotten once they are asked for, and beyond kMost: the watch
// calls too often then. Thread-safe.
class OwnNumbers {
 public:
  void add(const Watch* told, std::span<const RowRef> rows) OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::set<Seq>& known = numbers_[told];
    for (const RowRef& row : rows) known.insert(row.seq);
    while (known.size() > kMost) known.erase(known.begin());
  }

  // Whether these are all numbers beyond `after` up to `through`.
  bool are_all(const Watch* told, Seq after, Seq through) OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto known = numbers_.find(told);
    if (known == numbers_.end()) return false;
    std::set<Seq>& numbers = known->second;
    const auto first = numbers.upper_bound(after);
    const auto end = numbers.upper_bound(through);
    const auto own = std::distance(first, end);
    numbers.erase(numbers.begin(), end);
    return own == through - after;
  }

  void forget(const Watch* told) OUTBOX_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    numbers_.erase(told);
  }

 private:
  static constexpr std::size_t kMost = 10'000;

  Mutex mutex_;
  std::map<const Watch*, std::set<Seq>> numbers_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::mysql
