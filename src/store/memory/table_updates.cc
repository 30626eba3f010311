// Claims and updates: the statements that change the state of rows.
#include <algorithm>
#include <utility>

#include "model/event_row.h"
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
