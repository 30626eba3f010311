// Claims and marks: the statements that change the state of rows.
#include <algorithm>
#include <utility>

#include "store/common/rows.h"
#include "store/memory/table.h"

namespace outbox::memory {
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

void change(StoredRow& row, const Mark& mark, Time now) {
  switch (mark.kind) {
    case Mark::Kind::done:
      finish(row, Status::done, now);
      return;
    case Mark::Kind::retry:
      row.status = Status::retry;
      row.attempts = mark.attempts;
      row.last_error = mark.error;
      [[fallthrough]];
    case Mark::Kind::defer:
      row.crashes = mark.kind == Mark::Kind::retry ? 0 : mark.crashes;
      if (!mark.error.empty()) row.last_error = mark.error;
      row.progress = mark.progress;
      wait(row, mark.lane, now + mark.delay);
      unlock(row);
      return;
    case Mark::Kind::dead:
      finish(row, Status::dead, now);
      row.attempts = mark.attempts;
      row.last_error = mark.error;
      row.progress = mark.progress;
      if (mark.lane != kNoLane) row.hold = mark.lane;
      return;
    case Mark::Kind::aside:
      wait(row, mark.lane, row.available_at);
      unlock(row);
      return;
    case Mark::Kind::suspect:
      row.crashes = mark.crashes;
      return;
    case Mark::Kind::unblock:
      row.hold.reset();
      return;
  }
}

}  // namespace

bool Table::apply(const Mark& mark, Time now) {
  const auto at = rows_.find(mark.row.seq);
  // A number alone does not name an event.
  if (at == rows_.end() || at->second.event.id() != mark.event_id) {
    return mark.kind == Mark::Kind::done && on_done_ == OnDone::remove;
  }
  StoredRow& row = at->second;
  const bool unblocks = mark.kind == Mark::Kind::unblock;
  if (unblocks ? row.status != Status::dead : !row.pending()) {
    return mark.kind == (row.status == Status::done ? Mark::Kind::done : Mark::Kind::dead);
  }
  if (mark.kind == Mark::Kind::done && on_done_ == OnDone::remove) {
    erase(row.seq);
  } else {
    update(row, [&](StoredRow& changed) { change(changed, mark, now); });
  }
  return true;
}

Table::Right Table::claimer_may(const Mark& mark, const std::string& owner) const {
  const StoredRow* row = find(mark.row.seq);
  if (row == nullptr || row->locked_by == owner) return Right::yes;
  if (!row->pending() || !row->locked_by.empty()) return Right::no;

  // Nobody holds it. The claimer's own mark may have set it free.
  switch (mark.kind) {
    case Mark::Kind::retry:
      return row->status == Status::retry && row->attempts == mark.attempts &&
                     row->last_error == mark.error
                 ? Right::already_done
                 : Right::no;
    case Mark::Kind::defer:
    case Mark::Kind::aside:
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
    update(*row, [&](StoredRow& locked) {
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
    update(at->second, unlock);
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
