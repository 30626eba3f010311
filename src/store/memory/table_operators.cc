// What operators ask of the table and do to it.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/utf8.h"
#include "model/event_row.h"
#include "store/memory/table.h"

namespace outbox::memory {
namespace {

bool within(const TimeRange& range, const std::optional<Time>& time) {
  if (!range.bounded()) return true;
  return time && (!range.from || *time >= *range.from) && (!range.until || *time < *range.until);
}

bool is_one_of(const std::vector<Status>& statuses, Status status) {
  return std::find(statuses.begin(), statuses.end(), status) != statuses.end();
}

bool matches(const EventFilter& filter, const StoredRow& row) {
  const auto same = [](const std::string& wanted, const std::string& actual) {
    return wanted.empty() || wanted == actual;
  };
  const Event& event = row.event;
  return (filter.status.empty() || is_one_of(filter.status, row.status)) &&
         same(filter.type, event.type()) && same(filter.aggregate_type, event.aggregate_type()) &&
         same(filter.aggregate_id, event.aggregate_id()) &&
         same(filter.tenant_id, event.tenant_id()) &&
         row.last_error.find(filter.error_contains) != std::string::npos &&
         within(filter.occurred, event.occurred_at()) && within(filter.finished, row.done_at);
}

EventFilter with_status(EventFilter filter, std::vector<Status> status) {
  filter.status = std::move(status);
  return filter;
}

bool is_purgeable(Purgeable what, const StoredRow& row, Time before) {
  switch (what) {
    case Purgeable::done:
      return row.status == Status::done && row.done_at && *row.done_at < before;
    case Purgeable::dead:
      return row.status == Status::dead && row.done_at && *row.done_at < before && !row.hold;
    case Purgeable::any_age:
      return row.event.occurred_at() < before;
  }
  return false;
}

std::string beginning(const std::string& text, std::size_t code_points) {
  std::size_t end = 0;
  while (end < text.size() && code_points-- > 0) {
    end += std::max<std::size_t>(utf8_sequence(std::string_view(text).substr(end)), 1);
  }
  return text.substr(0, end);
}

void make_new(StoredRow& row, Time now) {
  // Of a fan-out that died halfway, those who have the event keep it.
  if (row.status == Status::done) row.progress.clear();
  row.status = Status::pending;
  row.attempts = 0;
  row.crashes = 0;
  row.available_at = now;
  row.last_error.clear();
  row.locked_by.clear();
  row.done_at.reset();
  // One that blocks its lane keeps its place in it, ahead of those behind.
  if (row.hold.value_or(0) <= 0) row.hold = hold_until(now);
}

// The first `limit` of the rows; `through` and `more` of the step are set.
std::vector<Seq> first_of(std::vector<Seq> rows, std::size_t limit, Seq after, Changed& step) {
  step.more = rows.size() > limit;
  if (step.more) rows.resize(limit);
  step.through = rows.empty() ? after : rows.back();
  return rows;
}

}  // namespace

EventRecord to_record(const StoredRow& stored, Time now) {
  return {.row = to_row(stored, now),
          .hold = stored.hold,
          .last_error = stored.last_error,
          .locked_by = stored.locked_by,
          .done_at = stored.done_at};
}

template <class Wanted>
std::vector<Seq> Table::select(bool dead_only, Seq after, Wanted wanted) const {
  std::vector<Seq> found;
  if (dead_only) {
    for (auto seq = dead_.upper_bound(after); seq != dead_.end(); ++seq) {
      if (wanted(rows_.at(*seq))) found.push_back(*seq);
    }
    return found;
  }
  for (const auto& [seq, row] : rows_) {
    if (seq > after && wanted(row)) found.push_back(seq);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<Seq> Table::select(const EventFilter& filter, Seq after) const {
  const bool dead_only = filter.status == std::vector{Status::dead};
  return select(dead_only, after, [&](const StoredRow& row) { return matches(filter, row); });
}

Counts Table::counts(Time now) const {
  Counts counts{.pending = pending_, .dead = dead(), .retry = retrying_};
  const std::int64_t until = now.time_since_epoch().count();
  const auto could_go = [&](const StoredRow& row) {
    const Time occurred = row.event.occurred_at();
    counts.oldest_pending = std::min(counts.oldest_pending.value_or(occurred), occurred);
  };
  for (int i = 0; i < index_.shards(); ++i) {
    const Index::Shard& shard = index_.shard(i);
    for (const Index::Queue* queue : {&shard.free, &shard.claimed}) {
      for (const auto& [seq, row] : queue->ready) could_go(*row);
      for (const auto& [key, row] : queue->due) {
        if (key.first > until) {
          ++counts.delayed;
        } else {
          could_go(*row);
        }
      }
    }
    for (const auto& [key, rows] : shard.lanes) {
      counts.held += std::count_if(rows.begin(), rows.end(),
                                   [](const auto& entry) { return entry.second->pending(); });
    }
  }
  return counts;
}

std::vector<EventRecord> Table::list(const EventFilter& filter, Seq after, std::size_t limit,
                                     Time now) const {
  std::vector<EventRecord> records;
  for (const Seq seq : select(filter, after)) {
    if (records.size() == limit) break;
    records.push_back(to_record(rows_.at(seq), now));
  }
  return records;
}

std::int64_t Table::count(const EventFilter& filter) const {
  return static_cast<std::int64_t>(select(filter, 0).size());
}

std::vector<DeadGroup> Table::dead_groups(const EventFilter& filter, std::size_t limit) const {
  std::map<std::tuple<std::string, std::string, std::string>, DeadGroup> groups;
  for (const Seq seq : select(with_status(filter, {Status::dead}), 0)) {
    const StoredRow& row = rows_.at(seq);
    const Event& event = row.event;
    const std::string error = beginning(row.last_error, 200);
    const Time died = row.done_at.value_or(Time{});
    DeadGroup& group = groups[{event.aggregate_type(), event.type(), error}];
    if (group.count++ == 0) {
      group.aggregate_type = event.aggregate_type();
      group.type = event.type();
      group.error = error;
      group.first = group.last = died;
    }
    group.first = std::min(group.first, died);
    group.last = std::max(group.last, died);
    group.example_id = std::max(group.example_id, event.id());
  }
  std::vector<DeadGroup> result;
  result.reserve(groups.size());
  for (auto& [key, group] : groups) result.push_back(std::move(group));
  std::stable_sort(result.begin(), result.end(),
                   [](const DeadGroup& a, const DeadGroup& b) { return a.count > b.count; });
  if (result.size() > limit) result.resize(limit);
  return result;
}

void Table::note_if_blocking(const StoredRow& row) {
  if (row.status != Status::dead || row.hold.value_or(0) <= 0) return;
  unblocked_.emplace(++last_note_, LaneRef{.shard = row.shard, .key = *row.hold});
}

bool Table::replay(std::string_view event_id, Time now) {
  const StoredRow* found = find(event_id);
  if (found == nullptr || found->pending()) return false;
  note_if_blocking(*found);
  modify(rows_.at(found->seq), [&](StoredRow& row) { make_new(row, now); });
  return true;
}

bool Table::discard(std::string_view event_id) {
  const StoredRow* found = find(event_id);
  if (found == nullptr || found->status != Status::dead) return false;
  note_if_blocking(*found);
  erase(found->seq);
  return true;
}

Changed Table::replay(const EventFilter& filter, Seq after, std::size_t limit, Time now) {
  std::vector<Status> statuses;
  for (const Status status : {Status::done, Status::dead}) {
    if (is_one_of(filter.status, status)) statuses.push_back(status);
  }
  Changed step{.through = after};
  if (filter.status.empty()) {
    statuses = {Status::dead};
  } else if (statuses.empty()) {
    return step;
  }
  const EventFilter narrowed = with_status(filter, std::move(statuses));
  for (const Seq seq : first_of(select(narrowed, after), limit, after, step)) {
    note_if_blocking(rows_.at(seq));
    modify(rows_.at(seq), [&](StoredRow& row) { make_new(row, now); });
    ++step.rows;
  }
  return step;
}

Changed Table::discard(const EventFilter& filter, Seq after, std::size_t limit) {
  Changed step;
  const EventFilter narrowed = with_status(filter, {Status::dead});
  for (const Seq seq : first_of(select(narrowed, after), limit, after, step)) {
    note_if_blocking(rows_.at(seq));
    erase(seq);
    ++step.rows;
  }
  return step;
}

Changed Table::purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) {
  Changed step;
  auto rows = select(what == Purgeable::dead, after,
                     [&](const StoredRow& row) { return is_purgeable(what, row, before); });
  for (const Seq seq : first_of(std::move(rows), limit, after, step)) {
    if (archive) archived_.push_back(rows_.at(seq));
    erase(seq);
    ++step.rows;
  }
  return step;
}

std::int64_t Table::count_purgeable(Purgeable what, Time before) const {
  return static_cast<std::int64_t>(select(what == Purgeable::dead, 0, [&](const StoredRow& row) {
                                     return is_purgeable(what, row, before);
                                   }).size());
}

std::vector<HeldAggregate> Table::held_aggregates(std::size_t limit) const {
  constexpr std::size_t kCountedBehindHead = 1000;
  std::vector<HeldAggregate> result;
  for (int shard = 0; shard < index_.shards(); ++shard) {
    for (const auto& [key, rows] : index_.shard(shard).lanes) {
      // Several aggregates may share a key; each has its own head.
      const std::size_t first = result.size();
      std::size_t seen = 0;
      for (const auto& [seq, row] : rows) {
        if (seen++ > kCountedBehindHead) break;
        const Event& event = row->event;
        const auto known = std::find_if(result.begin() + static_cast<std::ptrdiff_t>(first),
                                        result.end(), [&](const HeldAggregate& held) {
                                          return held.aggregate_id == event.aggregate_id() &&
                                                 held.aggregate_type == event.aggregate_type();
                                        });
        if (known != result.end()) {
          ++known->waiting;
          continue;
        }
        if (result.size() == limit) break;
        result.push_back({.aggregate_type = event.aggregate_type(),
                          .aggregate_id = event.aggregate_id(),
                          .head_id = event.id(),
                          .head_status = row->status,
                          .attempts = row->attempts,
                          .last_error = row->last_error});
      }
    }
    if (result.size() == limit) break;
  }
  return result;
}

}  // namespace outbox::memory
