#include "store/memory/table.h"

#include <algorithm>
#include <utility>

#include "base/bounded.h"
#include "model/event_row.h"

namespace outbox::memory {

void Index::put(StoredRow& row) {
  if (!row.hold) return;
  Shard& shard = shards_[static_cast<std::size_t>(row.shard)];
  if (*row.hold > 0) {
    shard.lanes[*row.hold].emplace(row.seq, &row);
    return;
  }
  const bool claimed = !row.locked_by.empty();
  Queue& queue = claimed ? shard.claimed : shard.free;
  if (*row.hold == 0) {
    queue.ready.emplace_hint(queue.ready.end(), row.seq, &row);
  } else {
    queue.due.emplace(DueKey{-*row.hold, row.seq}, &row);
  }
  if (claimed) locks_.emplace(LockKey{row.locked_at, row.seq}, &row);
}

void Index::take(StoredRow& row) {
  if (!row.hold) return;
  Shard& shard = shards_[static_cast<std::size_t>(row.shard)];
  if (*row.hold > 0) {
    const auto lane = shard.lanes.find(*row.hold);
    lane->second.erase(row.seq);
    if (lane->second.empty()) shard.lanes.erase(lane);
    return;
  }
  const bool claimed = !row.locked_by.empty();
  Queue& queue = claimed ? shard.claimed : shard.free;
  if (*row.hold == 0) {
    queue.ready.erase(row.seq);
  } else {
    queue.due.erase(DueKey{-*row.hold, row.seq});
  }
  if (claimed) locks_.erase(LockKey{row.locked_at, row.seq});
}

namespace {

using std::chrono::microseconds;

// The same for every event of an aggregate; events without one are spread.
int shard_of(const Event& event, int shards) {
  const std::string& id = event.aggregate_id().empty() ? event.id() : event.aggregate_id();
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  };
  add(event.aggregate_type());
  add("\x1f");
  add(id);
  // The low bits of FNV-1a alone mix badly.
  hash ^= hash >> 32;
  return static_cast<int>(hash % static_cast<std::uint64_t>(shards));
}

// Copies from a merge of ranges until the limit, or until `wanted` says no. Payloads are
// shared, not copied.
template <class Key, class Wanted>
bool read(Merge<Key>& from, const ReadLimit& limit, Time now, std::vector<Row>& to, Wanted wanted) {
  ByteBudget budget(limit);
  for (; from.row() != nullptr && wanted(from.key()); from.step()) {
    if (to.size() >= limit.rows || budget.spent()) return true;
    const Event& event = from.row()->event;
    budget.spend(budget.taken(event.id()) ? 0 : event.payload().size());
    to.push_back(to_row(*from.row(), now));
  }
  return false;
}

}  // namespace

Row to_row(const StoredRow& stored, Time now) {
  return {.ref = {.seq = stored.seq, .shard = stored.shard, .hold = stored.hold.value_or(0)},
          .event = stored.event,
          .status = stored.status,
          .attempts = stored.attempts,
          .crashes = stored.crashes,
          .progress = stored.progress,
          .available_in = internal::bounded(stored.available_at - now)};
}

// The indexes of a copy point at its own rows.
Table::Table(const Table& other)
    : last_seq_(other.last_seq_),
      index_(other.index_.shards()),
      archived_(other.archived_),
      unblocked_(other.unblocked_),
      last_note_(other.last_note_),
      on_done_(other.on_done_) {
  for (const auto& [seq, row] : other.rows_) insert(row);
}

// --- Writing ---

StoredRow Table::make_row(const Event& event, const std::string& owner, Time now) {
  // Whether it waits was decided by the writer's clock, which may be ahead of this one.
  const bool waits = event.delay() || event.available_at() > event.occurred_at();
  const Time until = event.delay() ? now + *event.delay() : event.available_at();
  const Time available_at = waits ? until : std::min(until, now);
  const bool ready = available_at <= now;
  return {.event = event,
          .seq = ++last_seq_,
          .shard = shard_of(event, index_.shards()),
          .hold = ready ? 0 : hold_until(available_at),
          .locked_by = ready ? owner : std::string(),
          .locked_at = now,
          .available_at = available_at};
}

void Table::insert(StoredRow row) {
  const Seq seq = row.seq;
  StoredRow& stored = rows_.emplace(seq, std::move(row)).first->second;
  ids_.emplace(stored.event.id(), seq);
  index_.put(stored);
  count(stored, 1);
}

void Table::count(const StoredRow& row, std::int64_t by) {
  if (row.pending()) pending_ += by;
  if (row.status == Status::retry) retrying_ += by;
  if (row.status != Status::dead) return;
  if (by > 0) {
    dead_.insert(row.seq);
  } else {
    dead_.erase(row.seq);
  }
}

void Table::erase(Seq seq) {
  const auto at = rows_.find(seq);
  index_.take(at->second);
  count(at->second, -1);
  ids_.erase(at->second.event.id());
  rows_.erase(at);
}

// --- Reading ---

Rows Table::ready(std::span<const int> shards, const ReadLimit& limit, std::vector<Seq>& floors,
                  Time now) const {
  Merge<Seq> merge;
  for (const int shard : shards) {
    const Seq floor = floors.at(static_cast<std::size_t>(shard));
    merge.add(index_.shard(shard).free.ready, floor);
    merge.add(index_.shard(shard).claimed.ready, floor);
  }
  Rows result;
  result.more = read(merge, limit, now, result.rows, [](Seq) { return true; });
  for (const Row& row : result.rows) {
    floors[static_cast<std::size_t>(row.ref.shard)] = row.ref.seq + 1;
  }
  return result;
}

DueRows Table::due(std::span<const int> shards, const ReadLimit& limit, Time now) const {
  Merge<DueKey> merge;
  for (const int shard : shards) {
    merge.add(index_.shard(shard).free.due);
    merge.add(index_.shard(shard).claimed.due);
  }
  DueRows result;
  const std::int64_t until = now.time_since_epoch().count();
  result.more =
      read(merge, limit, now, result.rows, [&](const DueKey& key) { return key.first <= until; });
  if (merge.row() != nullptr) {
    result.next_in =
        internal::bounded(microseconds{std::max<std::int64_t>(0, merge.key().first - until)});
  }
  return result;
}

Rows Table::held(std::span<const LaneRef> lanes, const ReadLimit& limit, Time now) const {
  Merge<Seq> rows;
  for (const LaneRef& ref : lanes) {
    const Lanes& of_shard = index_.shard(ref.shard).lanes;
    if (const auto lane = of_shard.find(ref.key); lane != of_shard.end()) rows.add(lane->second);
  }
  Rows result;
  result.more = read(rows, limit, now, result.rows, [](Seq) { return true; });
  return result;
}

std::vector<HeldLane> Table::held_lanes(int shard, LaneKey after, std::size_t limit,
                                        Time now) const {
  const Lanes& lanes = index_.shard(shard).lanes;
  std::vector<HeldLane> result;
  for (auto lane = lanes.upper_bound(after); lane != lanes.end() && result.size() < limit; ++lane) {
    const StoredRow& first = *lane->second.begin()->second;
    result.push_back({.key = lane->first,
                      .shard = shard,
                      .first = first.seq,
                      .status = first.status,
                      .available_in = internal::bounded(first.available_at - now)});
  }
  return result;
}

Table::Notes Table::unblocked(std::span<const int> shards, std::size_t limit) const {
  Notes notes;
  for (const auto& [number, lane] : unblocked_) {
    if (notes.size() == limit) break;
    const bool wanted = std::find(shards.begin(), shards.end(), lane.shard) != shards.end();
    if (wanted) notes.emplace(number, lane);
  }
  return notes;
}

void Table::forget_unblocked(const Notes& notes) {
  for (const auto& [number, lane] : notes) unblocked_.erase(number);
}

const StoredRow* Table::find(Seq seq) const {
  const auto at = rows_.find(seq);
  return at == rows_.end() ? nullptr : &at->second;
}

const StoredRow* Table::find(std::string_view event_id) const {
  const auto at = ids_.find(event_id);
  return at == ids_.end() ? nullptr : find(at->second);
}

namespace {

void unlock(StoredRow& row) { row.locked_by.clear(); }

void wait(StoredRow& row, LaneKey lane, Time until) {
  row.available_at = until;
  row.hold = lane != kNoLane ? lane : hold_until(until);
}

void finish(StoredRow& row, Status status, Time now) {
  row.status = status;
  row.done_at = now;
  row.hold.reset();
}

void change(StoredRow& row, const StatusUpdate& update, Time now) {
  switch (update.kind) {
    case StatusUpdate::Kind::done:
      finish(row, Status::done, now);
      return;
    case StatusUpdate::Kind::retry:
      row.status = Status::retry;
      row.attempts = update.attempts;
      row.last_error = update.error;
      [[fallthrough]];
    case StatusUpdate::Kind::defer:
      row.crashes = update.kind == StatusUpdate::Kind::retry ? 0 : update.crashes;
      if (!update.error.empty()) row.last_error = update.error;
      row.progress = update.progress;
      wait(row, update.lane, now + update.delay);
      unlock(row);
      return;
    case StatusUpdate::Kind::dead:
      finish(row, Status::dead, now);
      row.attempts = update.attempts;
      row.last_error = update.error;
      row.progress = update.progress;
      if (update.lane != kNoLane) row.hold = update.lane;
      return;
    case StatusUpdate::Kind::hold:
      wait(row, update.lane, row.available_at);
      unlock(row);
      return;
    case StatusUpdate::Kind::crashes:
      row.crashes = update.crashes;
      return;
    case StatusUpdate::Kind::unblock:
      row.hold.reset();
      return;
  }
}

}  // namespace

bool Table::apply(const StatusUpdate& update, Time now) {
  const auto at = rows_.find(update.row.seq);
  // A number alone does not name an event.
  if (at == rows_.end() || at->second.event.id() != update.event_id) {
    return update.kind == StatusUpdate::Kind::done && on_done_ == OnDone::remove;
  }
  StoredRow& row = at->second;
  const bool unblocks = update.kind == StatusUpdate::Kind::unblock;
  if (unblocks ? row.status != Status::dead : !row.pending()) {
    return update.kind ==
           (row.status == Status::done ? StatusUpdate::Kind::done : StatusUpdate::Kind::dead);
  }
  if (update.kind == StatusUpdate::Kind::done && on_done_ == OnDone::remove) {
    erase(row.seq);
  } else {
    modify(row, [&](StoredRow& changed) { change(changed, update, now); });
  }
  return true;
}

Table::Right Table::claimer_may(const StatusUpdate& update, const std::string& owner) const {
  const StoredRow* row = find(update.row.seq);
  if (row == nullptr || row->locked_by == owner) return Right::yes;
  if (!row->pending() || !row->locked_by.empty()) return Right::no;

  // Nobody holds it. The claimer's own update may have set it free.
  switch (update.kind) {
    case StatusUpdate::Kind::retry:
      return row->status == Status::retry && row->attempts == update.attempts &&
                     row->last_error == update.error
                 ? Right::already_done
                 : Right::no;
    case StatusUpdate::Kind::defer:
    case StatusUpdate::Kind::hold:
      return row->hold != 0 ? Right::already_done : Right::no;
    default:
      return Right::no;
  }
}

Rows Table::claim(const Claim& claim, Time now) {
  const std::int64_t until = now.time_since_epoch().count();
  std::vector<StoredRow*> chosen;
  Rows result;
  ByteBudget budget(claim.limit);
  // False once there are enough.
  const auto choose = [&](StoredRow& row) {
    if (row.event.occurred_at() > claim.occurred_until) return true;
    result.more = chosen.size() >= claim.limit.rows || budget.spent();
    if (result.more) return false;
    chosen.push_back(&row);
    budget.spend(row.event.payload().size());
    return true;
  };

  // First what has waited for its turn once before, so that a long backlog of
  // fresh rows cannot starve it.
  for (const auto& [key, row] : index_.locks()) {
    if (key.first >= claim.locked_before) break;
    if (-*row->hold > until) continue;
    if (!choose(*row)) break;
  }
  Merge<DueKey> due;
  Merge<Seq> ready;
  for (int shard = 0; shard < index_.shards(); ++shard) {
    due.add(index_.shard(shard).free.due);
    ready.add(index_.shard(shard).free.ready);
  }
  for (; !result.more && due.row() != nullptr && due.key().first <= until; due.step()) {
    if (!choose(*due.row())) break;
  }
  for (; !result.more && ready.row() != nullptr; ready.step()) {
    if (!choose(*ready.row())) break;
  }

  std::sort(chosen.begin(), chosen.end(),
            [](const StoredRow* a, const StoredRow* b) { return a->seq < b->seq; });
  result.rows.reserve(chosen.size());
  for (StoredRow* row : chosen) {
    const bool reclaimed = !row->locked_by.empty();
    modify(*row, [&](StoredRow& locked) {
      locked.locked_by = claim.owner;
      locked.locked_at = now;
    });
    result.rows.push_back(to_row(*row, now));
    result.rows.back().reclaimed = reclaimed;
  }
  return result;
}

void Table::unclaim(std::span<const RowRef> rows, const std::string& owner) {
  for (const RowRef& ref : rows) {
    const auto at = rows_.find(ref.seq);
    if (at == rows_.end() || !at->second.pending() || at->second.locked_by != owner) continue;
    modify(at->second, unlock);
  }
}

void Table::unclaim_all(const std::string& owner) {
  std::vector<RowRef> mine;
  for (const auto& [key, row] : index_.locks()) {
    if (row->locked_by == owner) mine.push_back({.seq = row->seq});
  }
  unclaim(mine, owner);
}

}  // namespace outbox::memory
