// Which events are in flight.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "outbox/spi/dispatcher.h"

namespace outbox {

// The exact tracker. An event enters before anybody can work on it and leaves
// once its update has been acknowledged AND every read that began before that has been
// filtered: a read's snapshot may be older than the update, and would deliver
// the event a second time. Events that finish while a read is under way wait
// pending release until it ends.
//
// Thread-safe.
class Gate final : public InFlightTracker {
 public:
  bool try_acquire(std::string_view event_id) override;
  void release(std::string_view event_id) override;

  // As try_acquire(), for an event that is being written, and takes it out of pending release: its
  // row was rolled back, and is written once more. What a read under way finds of it is still
  // filtered.
  bool reserve(std::string_view event_id);

  // Brackets a read and the handling of its rows. One read at a time.
  void read_begins();
  void read_ends();

  // Whether it is in, or pending release: while a read is under way, it stays so until that ends.
  bool contains(std::string_view event_id) const;

  // Without those pending release, and with them.
  std::size_t size() const;
  std::size_t all() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };

  // The value: whether it is pending release.
  using Ids = std::unordered_map<std::string, bool, Hash, std::equal_to<>>;

  void add(std::string_view event_id) OUTBOX_REQUIRES(mutex_);
  void forget(Ids::const_iterator id) OUTBOX_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Ids ids_ OUTBOX_GUARDED_BY(mutex_);
  std::vector<const std::string*> release_pending_ OUTBOX_GUARDED_BY(mutex_);  // keys of ids_

  // The memory of ids that went, for those that come.
  std::vector<Ids::node_type> spare_ OUTBOX_GUARDED_BY(mutex_);
  bool reading_ OUTBOX_GUARDED_BY(mutex_) = false;
};

}  // namespace outbox
