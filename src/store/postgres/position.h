// How far a subscription has read, and what of that is not finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "model/shards.h"
#include "outbox/spi/store.h"

namespace outbox::postgres {

// Everything with seq <= position that is visible in `snapshot` is finished, except what is open;
// and so is what is visible in `target`, if there is one, with seq <= late_after: a look had more
// late rows than fit, which are read page by page before anything newer.
struct Cursor {
  Seq position = 0;
  std::string snapshot{};
  std::string target{};  // empty: none
  Seq late_after = 0;
};

// Tells the events apart that may have the same number: a server that has lost commits gives it out
// again.
std::uint64_t event_key(std::string_view event_id);

// What an instance knows of one shard: its cursor, which holds on the connection that it was learnt
// on, and the events that it has returned, which it knows by number and id.
//
// An event is *open* from the read that returns it until it is finished or its delivery row is
// committed. One that has been met since the cursor was loaded is *covered*: the cursor speaks of
// it, so that it belongs to what is stored as open while it is, and is forgotten once it is stored
// as finished. One that is not is remembered until a read meets it again.
//
// Used by one thread at a time.
class ShardPosition {
 public:
  bool loaded() const { return loaded_; }
  const Cursor& cursor() const { return cursor_; }

  // Delivery rows of other connections have numbers up to this one.
  Seq copied_through() const { return copied_through_; }

  void load(Cursor cursor, std::span<const Seq> open, Seq copied_through);

  // The connection was lost. What was returned is remembered.
  void forget_cursor();

  // --- Reading ---

  // What is open from that number on is to be returned once more.
  void rewind(Seq from);

  // The first of those, `most` at most.
  std::vector<Seq> again(std::size_t most) const;

  // Whether the event that has been read is to be returned.
  bool wants(Seq seq, std::uint64_t key, bool has_copy) const;

  // It has been returned or, if it is not wanted, passed over.
  void met(Seq seq, std::uint64_t key, bool has_copy);

  // There is no row with this number any more.
  void gone(Seq seq);

  // All up to there that the snapshot of the look shows has been met.
  void advance(Seq position);
  void looked(std::string snapshot);
  void begin_late(std::string target, Seq after);
  void late_through(Seq seq);

  // A look has come to the end: what was remembered and not met is stored already.
  void read_through();

  // --- Updating ---

  // Whether it is open.
  bool has(Seq seq, std::uint64_t key) const;

  // Whether it is finished, as far as this is known without its row.
  bool has_finished(Seq seq, std::uint64_t key) const;

  // Whether it was met, and is not open.
  bool is_behind(Seq seq) const;

  // It is open no longer; false if it was not.
  bool leave(Seq seq, std::uint64_t key);

  // --- Storing ---

  // How many have left since the cursor was stored, that storing it would tell.
  std::size_t unstored() const { return unstored_; }

  // How many have left that are not covered: to be stored once a read has met them.
  std::size_t remembered() const { return remembered_; }

  // The numbers that are open, by the cursor. Until stored() or not_stored() is called, what
  // leaves is not part of it.
  std::vector<Seq> begin_storing();
  void stored();
  void not_stored();

 private:
  enum class State : std::uint8_t { open, finished, storing };
  struct Entry {
    Seq seq = 0;
    std::uint64_t key = 0;
    State state = State::open;
    bool known = false;  // key is
    bool covered = false;
    bool again = false;  // to be returned once more
  };
  using Entries = std::vector<Entry>;

  Entry* find(Seq seq);
  const Entry* find(Seq seq) const;
  Entry& add(Seq seq);
  void count();

  bool loaded_ = false;
  Cursor cursor_;
  Seq copied_through_ = 0;
  Entries entries_;  // by seq
  std::size_t unstored_ = 0;
  std::size_t remembered_ = 0;
};

// The shards of an instance, as of one registration. Reads change them, updates and stores do, each
// on a thread of its own. Thread-safe.
class Positions {
 public:
  // What one shard is to be read from.
  struct Part {
    int shard = 0;
    Cursor cursor{};
    Seq copied_through = 0;
    std::vector<Seq> again{};
  };

  // What a read has found of a shard, in order: see ShardPosition.
  struct Read {
    struct Met {
      Seq seq = 0;
      std::uint64_t key = 0;
      bool has_copy = false;
      bool fresh = false;  // above the position
    };
    int shard = 0;
    std::vector<Met> met{};
    std::vector<Seq> gone{};
    std::string snapshot{};  // of a look that is complete below its position; or else empty
    Seq late_through = 0;    // of a page of late rows; 0: there was none
    bool complete = false;   // there is nothing beyond
  };

  struct Stored {
    int shard = 0;
    Cursor cursor{};
    std::vector<Seq> open{};
  };

  // Forgets everything of another epoch.
  void enter(std::int64_t epoch) OUTBOX_EXCLUDES(mutex_);
  void drop(int shard) OUTBOX_EXCLUDES(mutex_);
  void forget_cursors() OUTBOX_EXCLUDES(mutex_);

  std::vector<int> not_loaded(std::span<const int> shards) const OUTBOX_EXCLUDES(mutex_);
  void load(int shard, Cursor cursor, std::span<const Seq> open, Seq copied_through)
      OUTBOX_EXCLUDES(mutex_);

  // --- Reading ---

  void rewind(Seq from) OUTBOX_EXCLUDES(mutex_);

  // In this order; `most` numbers to be read again at most.
  std::vector<Part> parts(std::span<const int> shards, std::size_t most) const
      OUTBOX_EXCLUDES(mutex_);
  bool wants(int shard, Seq seq, std::uint64_t key, bool has_copy) const OUTBOX_EXCLUDES(mutex_);
  void take(std::span<const Read> reads) OUTBOX_EXCLUDES(mutex_);
  void begin_late(int shard, const std::string& target, Seq after) OUTBOX_EXCLUDES(mutex_);

  // --- Updating: for updates of this epoch ---

  bool has(std::int64_t epoch, const RowRef& row, std::uint64_t key) const OUTBOX_EXCLUDES(mutex_);
  bool has_finished(std::int64_t epoch, const RowRef& row, std::uint64_t key) const
      OUTBOX_EXCLUDES(mutex_);
  bool is_behind(std::int64_t epoch, const RowRef& row) const OUTBOX_EXCLUDES(mutex_);
  bool leave(std::int64_t epoch, const RowRef& row, std::uint64_t key) OUTBOX_EXCLUDES(mutex_);

  // --- Storing ---

  std::size_t unstored() const OUTBOX_EXCLUDES(mutex_);
  bool remembers_any() const OUTBOX_EXCLUDES(mutex_);
  std::int64_t epoch() const OUTBOX_EXCLUDES(mutex_);
  std::vector<Stored> begin_storing() OUTBOX_EXCLUDES(mutex_);
  void stored(std::span<const Stored> shards) OUTBOX_EXCLUDES(mutex_);
  void not_stored() OUTBOX_EXCLUDES(mutex_);

 private:
  const ShardPosition* of(std::int64_t epoch, const RowRef& row) const OUTBOX_REQUIRES(mutex_);
  ShardPosition& at(int shard) OUTBOX_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::int64_t epoch_ OUTBOX_GUARDED_BY(mutex_) = 0;
  PerShard<ShardPosition> shards_ OUTBOX_GUARDED_BY(mutex_);
};

}  // namespace outbox::postgres
