#include "store/postgres/position.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace outbox::postgres {

std::uint64_t event_key(std::string_view event_id) {
  return std::hash<std::string_view>{}(event_id);
}

// --- A shard ---

void ShardPosition::load(Cursor cursor, std::span<const Seq> open, Seq copied_through) {
  loaded_ = true;
  cursor_ = std::move(cursor);
  copied_through_ = copied_through;
  for (const Seq seq : open) {
    Entry* known = find(seq);
    // Nobody has returned it yet: the owner before may have died of it.
    if (known == nullptr) add(seq).again = true;
    find(seq)->covered = true;
  }
  count();
}

void ShardPosition::forget_cursor() {
  loaded_ = false;
  cursor_ = {};
  for (Entry& entry : entries_) entry.covered = false;
  // Of these only the cursor has told.
  std::erase_if(entries_, [](const Entry& entry) { return !entry.known; });
  count();
}

void ShardPosition::rewind(Seq from) {
  for (Entry& entry : entries_) {
    if (entry.seq >= from && entry.state == State::open) entry.again = true;
  }
}

std::vector<Seq> ShardPosition::again(std::size_t most) const {
  std::vector<Seq> numbers;
  for (const Entry& entry : entries_) {
    if (numbers.size() == most) break;
    if (entry.again && entry.covered && entry.state == State::open) numbers.push_back(entry.seq);
  }
  return numbers;
}

bool ShardPosition::wants(Seq seq, std::uint64_t key, bool has_copy) const {
  if (has_copy) return false;
  const Entry* entry = find(seq);
  return entry == nullptr || entry->state == State::open || (entry->known && entry->key != key);
}

void ShardPosition::met(Seq seq, std::uint64_t key, bool has_copy) {
  const bool wanted = wants(seq, key, has_copy);
  Entry* known = find(seq);
  Entry& entry = known == nullptr ? add(seq) : *known;
  entry.key = key;
  entry.known = true;
  entry.covered = true;
  entry.again = false;
  entry.state = wanted ? State::open : State::finished;
  if (!wanted) count();
}

void ShardPosition::gone(Seq seq) {
  Entry* entry = find(seq);
  if (entry == nullptr) return;
  entry->state = State::finished;
  count();
}

void ShardPosition::advance(Seq position) {
  cursor_.position = std::max(cursor_.position, position);
}

void ShardPosition::looked(std::string snapshot) { cursor_.snapshot = std::move(snapshot); }

void ShardPosition::begin_late(std::string target, Seq after) {
  cursor_.target = std::move(target);
  cursor_.late_after = after;
}

void ShardPosition::late_through(Seq seq) {
  cursor_.late_after = seq;
  if (seq < cursor_.position) return;
  cursor_.snapshot = std::exchange(cursor_.target, {});
  cursor_.late_after = 0;
}

void ShardPosition::read_through() {
  if (remembered_ == 0) return;
  std::erase_if(entries_, [](const Entry& entry) {
    return entry.state == State::finished && !entry.covered;
  });
  count();
}

bool ShardPosition::has(Seq seq, std::uint64_t key) const {
  const Entry* entry = find(seq);
  return entry != nullptr && entry->known && entry->key == key && entry->state == State::open;
}

bool ShardPosition::has_finished(Seq seq, std::uint64_t key) const {
  const Entry* entry = find(seq);
  return entry != nullptr && entry->known && entry->key == key && entry->state != State::open;
}

bool ShardPosition::is_behind(Seq seq) const {
  return loaded_ && seq <= cursor_.position && find(seq) == nullptr;
}

bool ShardPosition::leave(Seq seq, std::uint64_t key) {
  if (!has(seq, key)) return false;
  Entry* entry = find(seq);
  entry->state = State::finished;
  ++(entry->covered ? unstored_ : remembered_);
  return true;
}

std::vector<Seq> ShardPosition::begin_storing() {
  std::vector<Seq> open;
  for (Entry& entry : entries_) {
    if (!entry.covered) continue;
    if (entry.state == State::open) {
      open.push_back(entry.seq);
    } else {
      entry.state = State::storing;
    }
  }
  unstored_ = 0;
  return open;
}

void ShardPosition::stored() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.state == State::storing; });
}

void ShardPosition::not_stored() {
  for (Entry& entry : entries_) {
    if (entry.state == State::storing) entry.state = State::finished;
  }
  count();
}

ShardPosition::Entry* ShardPosition::find(Seq seq) {
  return const_cast<Entry*>(std::as_const(*this).find(seq));
}

const ShardPosition::Entry* ShardPosition::find(Seq seq) const {
  const auto place =
      std::lower_bound(entries_.begin(), entries_.end(), seq,
                       [](const Entry& entry, Seq number) { return entry.seq < number; });
  return place != entries_.end() && place->seq == seq ? &*place : nullptr;
}

ShardPosition::Entry& ShardPosition::add(Seq seq) {
  const auto place =
      std::lower_bound(entries_.begin(), entries_.end(), seq,
                       [](const Entry& entry, Seq number) { return entry.seq < number; });
  return *entries_.insert(place, Entry{.seq = seq});
}

void ShardPosition::count() {
  unstored_ = remembered_ = 0;
  for (const Entry& entry : entries_) {
    if (entry.state == State::finished) ++(entry.covered ? unstored_ : remembered_);
  }
}

// --- All of them ---

void Positions::enter(std::int64_t epoch) {
  MutexLock lock(mutex_);
  if (epoch_ == epoch) return;
  epoch_ = epoch;
  for (ShardPosition& shard : shards_) shard = {};
}

void Positions::drop(int shard) {
  MutexLock lock(mutex_);
  at(shard) = {};
}

void Positions::forget_cursors() {
  MutexLock lock(mutex_);
  for (ShardPosition& shard : shards_) shard.forget_cursor();
}

std::vector<int> Positions::not_loaded(std::span<const int> shards) const {
  MutexLock lock(mutex_);
  std::vector<int> missing;
  for (const int shard : shards) {
    if (!shards_.at(static_cast<std::size_t>(shard)).loaded()) missing.push_back(shard);
  }
  return missing;
}

void Positions::load(int shard, Cursor cursor, std::span<const Seq> open, Seq copied_through) {
  MutexLock lock(mutex_);
  at(shard).load(std::move(cursor), open, copied_through);
}

void Positions::rewind(Seq from) {
  MutexLock lock(mutex_);
  for (ShardPosition& shard : shards_) shard.rewind(from);
}

std::vector<Positions::Part> Positions::parts(std::span<const int> shards, std::size_t most) const {
  MutexLock lock(mutex_);
  std::vector<Part> parts;
  for (const int number : shards) {
    const ShardPosition& shard = shards_.at(static_cast<std::size_t>(number));
    parts.push_back({.shard = number,
                     .cursor = shard.cursor(),
                     .copied_through = shard.copied_through(),
                     .again = shard.again(most)});
    most -= parts.back().again.size();
  }
  return parts;
}

bool Positions::wants(int shard, Seq seq, std::uint64_t key, bool has_copy) const {
  MutexLock lock(mutex_);
  return shards_.at(static_cast<std::size_t>(shard)).wants(seq, key, has_copy);
}

void Positions::take(std::span<const Read> reads) {
  MutexLock lock(mutex_);
  for (const Read& read : reads) {
    ShardPosition& shard = at(read.shard);
    if (!shard.loaded()) continue;  // given back meanwhile
    for (const Read::Met& met : read.met) {
      shard.met(met.seq, met.key, met.has_copy);
      if (met.fresh) shard.advance(met.seq);
    }
    for (const Seq seq : read.gone) shard.gone(seq);
    if (!read.snapshot.empty()) shard.looked(read.snapshot);
    if (read.late_through != 0) shard.late_through(read.late_through);
    if (read.complete) shard.read_through();
  }
}

void Positions::begin_late(int shard, const std::string& target, Seq after) {
  MutexLock lock(mutex_);
  if (at(shard).loaded()) at(shard).begin_late(target, after);
}

bool Positions::has(std::int64_t epoch, const RowRef& row, std::uint64_t key) const {
  MutexLock lock(mutex_);
  const ShardPosition* shard = of(epoch, row);
  return shard != nullptr && shard->has(row.seq, key);
}

bool Positions::has_finished(std::int64_t epoch, const RowRef& row, std::uint64_t key) const {
  MutexLock lock(mutex_);
  const ShardPosition* shard = of(epoch, row);
  return shard != nullptr && shard->has_finished(row.seq, key);
}

bool Positions::is_behind(std::int64_t epoch, const RowRef& row) const {
  MutexLock lock(mutex_);
  const ShardPosition* shard = of(epoch, row);
  return shard != nullptr && shard->is_behind(row.seq);
}

bool Positions::leave(std::int64_t epoch, const RowRef& row, std::uint64_t key) {
  MutexLock lock(mutex_);
  return of(epoch, row) != nullptr && at(row.shard).leave(row.seq, key);
}

std::size_t Positions::unstored() const {
  MutexLock lock(mutex_);
  std::size_t sum = 0;
  for (const ShardPosition& shard : shards_) sum += shard.unstored();
  return sum;
}

bool Positions::remembers_any() const {
  MutexLock lock(mutex_);
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const ShardPosition& shard) { return shard.remembered() > 0; });
}

std::int64_t Positions::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

std::vector<Positions::Stored> Positions::begin_storing() {
  MutexLock lock(mutex_);
  std::vector<Stored> shards;
  for (int number = 0; number < kShards; ++number) {
    ShardPosition& shard = at(number);
    if (shard.unstored() == 0) continue;
    shards.push_back({.shard = number, .cursor = shard.cursor(), .open = shard.begin_storing()});
  }
  return shards;
}

void Positions::stored(std::span<const Stored> shards) {
  MutexLock lock(mutex_);
  for (const Stored& stored : shards) at(stored.shard).stored();
}

void Positions::not_stored() {
  MutexLock lock(mutex_);
  for (ShardPosition& shard : shards_) shard.not_stored();
}

const ShardPosition* Positions::of(std::int64_t epoch, const RowRef& row) const {
  if (epoch != epoch_ || !is_shard(row.shard)) return nullptr;
  return &shards_[static_cast<std::size_t>(row.shard)];
}

ShardPosition& Positions::at(int shard) { return shards_.at(static_cast<std::size_t>(shard)); }

}  // namespace outbox::postgres
