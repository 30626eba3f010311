#include "store/postgres/position_round.h"

#include <iterator>
#include <limits>
#include <string_view>

#include "store/postgres/position_sql.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

// Numbers that a page of late rows covers at most.
constexpr Seq kLateNumbers = 100'000;

constexpr int kHasCopyColumn = kLightColumns;
constexpr int kIsLateColumn = kLightColumns + 1;
// Of the first row of a look.
constexpr int kSnapshotColumn = kPayloadColumn;
constexpr int kProcessColumn = kPayloadSizeColumn;

}  // namespace

std::vector<Call> PositionRound::calls() {
  std::vector<Call> calls;
  const auto call = [&](Kind kind, Call next) {
    kinds_.push_back(kind);
    calls.push_back(std::move(next));
  };
  if (settings_.with_copies) call(Kind::copy, ready_copies());
  if (again_ > 0) call(Kind::open, open());
  // What is open comes first.
  if (again_ >= most_) {
    more_ = true;
    return calls;
  }
  if (any_late()) call(Kind::late, late_page());
  looks_ = true;
  looks_ =
      std::any_of(parts_.begin(), parts_.end(), [&](const auto& part) { return looks_at(part); });
  if (looks_) call(Kind::fresh, look());
  return calls;
}

Call PositionRound::ready_copies() const {
  std::vector<std::int64_t> shards;
  for (const Positions::Part& part : parts_) shards.push_back(part.shard);
  return {sql::kReady,
          Parameters(shards, std::vector<std::int64_t>(shards.size(), 0), sql_limit(most_))};
}

Call PositionRound::open() const {
  std::vector<std::int64_t> shards, numbers;
  for (const Positions::Part& part : parts_) {
    for (const Seq seq : part.again) {
      shards.push_back(part.shard);
      numbers.push_back(seq);
    }
  }
  return {sql::kOpen, Parameters(shards, numbers)};
}

Call PositionRound::late_page() {
  std::vector<std::int64_t> shards, after, through, copied;
  std::vector<OptionalText> snapshots, targets;
  for (const Positions::Part& part : parts_) {
    if (!is_late(part)) continue;
    shards.push_back(part.shard);
    after.push_back(part.cursor.late_after);
    through.push_back(page_end(part));
    snapshots.emplace_back(part.cursor.snapshot);
    targets.emplace_back(part.cursor.target);
    copied.push_back(part.copied_through);
    pages_[part.shard] = page_end(part);
  }
  return {sql::kLatePage,
          Parameters(shards, after, through, snapshots, sql_limit(most_), targets, copied)};
}

Seq PositionRound::page_end(const Positions::Part& part) {
  return std::min(part.cursor.position, part.cursor.late_after + kLateNumbers);
}

Call PositionRound::look() const {
  std::vector<std::int64_t> shards, positions, copied;
  std::vector<OptionalText> snapshots;
  for (const Positions::Part& part : parts_) {
    if (!looks_at(part)) continue;
    shards.push_back(part.shard);
    positions.push_back(part.cursor.position);
    snapshots.emplace_back(part.cursor.snapshot);
    copied.push_back(part.copied_through);
  }
  return {settings_.total_order ? sql::kLookInOrder : sql::kLook,
          Parameters(shards, positions, snapshots, copied, one_more(most_), sql_limit(most_))};
}

PositionRound::Outcome PositionRound::understand(std::vector<Result> results) {
  results_ = std::move(results);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (kinds_[i] != Kind::fresh) add(i, kinds_[i]);
  }
  if (looks_) {
    const std::size_t last = results_.size() - 1;
    add_look(last);
    if (results_[last].integer(0, kProcessColumn) != settings_.process) {
      return Outcome::other_process;
    }
    const auto late = std::count_if(found_.begin(), found_.end(), [&](const Found& found) {
      return found.kind == Kind::late && found.result == last;
    });
    if (static_cast<std::size_t>(late) > most_) return Outcome::too_many_late;
  }
  end_pages();
  // Then there may be more of them, which come before all else.
  if (copies_full_) {
    std::erase_if(found_, [](const Found& found) { return found.kind != Kind::copy; });
    more_ = true;
  }
  std::sort(found_.begin(), found_.end(),
            [&](const Found& a, const Found& b) { return before(a, b); });
  return Outcome::complete;
}

std::vector<Positions::Part> PositionRound::looked() const {
  std::vector<Positions::Part> looked;
  std::copy_if(parts_.begin(), parts_.end(), std::back_inserter(looked),
               [&](const auto& part) { return looks_at(part); });
  return looked;
}

void PositionRound::add(std::size_t result, Kind kind) {
  const Result& rows = results_[result];
  for (int row = 0; row < rows.rows(); ++row) {
    Found found{.result = result,
                .row = row,
                .shard = static_cast<int>(rows.integer(row, kShardColumn)),
                .seq = rows.integer(row, kSeqColumn),
                .key = event_key(rows.text(row, kEventIdColumn)),
                .kind = kind};
    if (kind != Kind::copy) {
      found.has_copy = rows.integer(row, kHasCopyColumn) != 0;
      found.wanted = positions_.wants(found.shard, found.seq, found.key, found.has_copy);
    }
    found_.push_back(found);
  }
  if (kind == Kind::copy) copies_full_ = static_cast<std::size_t>(rows.rows()) >= most_;
}

// Its first row tells of the look itself.
void PositionRound::add_look(std::size_t result) {
  const Result& rows = results_[result];
  snapshot_ = rows.text(0, kSnapshotColumn);
  std::size_t fresh = 0;
  for (int row = 1; row < rows.rows(); ++row) {
    const bool late = rows.integer(row, kIsLateColumn) != 0;
    Found found{.result = result,
                .row = row,
                .shard = static_cast<int>(rows.integer(row, kShardColumn)),
                .seq = rows.integer(row, kSeqColumn),
                .key = event_key(rows.text(row, kEventIdColumn)),
                .kind = late ? Kind::late : Kind::fresh,
                .has_copy = rows.integer(row, kHasCopyColumn) != 0};
    found.wanted = positions_.wants(found.shard, found.seq, found.key, found.has_copy);
    found_.push_back(found);
    if (!late) ++fresh;
  }
  if (fresh >= most_) {
    more_ = true;
    cut_in_ = found_.back().shard;
  }
}

// How far each page of late rows is complete. In one order, all of them only as far as the one that
// is shortest: what the others have beyond may come after rows that were not read.
void PositionRound::end_pages() {
  if (pages_.empty()) return;
  more_ = true;
  std::map<int, std::size_t> counts;
  std::map<int, Seq> last;
  for (const Found& found : found_) {
    if (found.kind != Kind::late || !pages_.contains(found.shard)) continue;
    ++counts[found.shard];
    last[found.shard] = std::max(last[found.shard], found.seq);
  }
  for (auto& [shard, through] : pages_) {
    if (counts[shard] >= most_) through = last[shard];
  }
  if (!settings_.total_order) return;
  Seq horizon = std::numeric_limits<Seq>::max();
  for (const auto& [shard, through] : pages_) {
    if (through < parts_[place_of(shard)].cursor.position) horizon = std::min(horizon, through);
  }
  for (auto& [shard, through] : pages_) through = std::min(through, horizon);
  std::erase_if(found_, [&](const Found& found) {
    return found.kind == Kind::late && pages_.contains(found.shard) && found.seq > horizon;
  });
}

Rows PositionRound::rows(const ReadLimit& limit, std::size_t most) {
  Rows result;
  ByteBudget budget(limit);
  const std::span<const Found> all(found_);
  std::size_t passed = passed_;
  std::size_t returned = 0;
  bool cut = false;
  while (passed < all.size() && !cut) {
    // As many as come from one answer, and may be returned.
    std::size_t end = passed;
    std::vector<Found> group;
    while (end < all.size()) {
      const Found& next = all[end];
      if (next.wanted) {
        if (returned + group.size() == most) break;
        if (!group.empty() && group.front().result != next.result) break;
        group.push_back(next);
      }
      ++end;
    }
    if (end == passed) break;
    const std::size_t before = result.rows.size();
    cut = !group.empty() && decode(group, budget, result.rows);
    returned += result.rows.size() - before;
    if (!cut) {
      passed = end;
      continue;
    }
    // Up to the last one that was returned.
    const RowRef& last = result.rows.back().ref;
    while (passed < end && !(all[passed].shard == last.shard && all[passed].seq == last.seq &&
                             all[passed].wanted)) {
      ++passed;
    }
    ++passed;
  }
  if (passed < all.size()) {
    cut_in_ = all[passed].shard;
    if (!result.rows.empty()) cut_in_ = result.rows.back().ref.shard;
  }
  result.more = more_ || passed < all.size();
  note(std::exchange(passed_, passed));
  return result;
}

// True if the budget ended before them.
bool PositionRound::decode(std::span<const Found> found, ByteBudget& budget,
                           std::vector<Row>& rows) {
  const Result& light = results_[found.front().result];
  const bool copies = found.front().kind == Kind::copy;
  std::vector<int> order;
  order.reserve(found.size());
  for (const Found& one : found) order.push_back(one.row);
  const auto fetch = [&](const std::vector<int>& large) {
    std::vector<OptionalText> ids;
    ids.reserve(large.size());
    for (const int row : large) ids.emplace_back(light.text(row, kEventIdColumn));
    return database_.run(copies ? sql::kPayloads : sql::kEventPayloads, ids);
  };
  const std::size_t before = rows.size();
  const JsonCodec& codec = *config_of(database_).options.codec;
  const bool cut = decode_light_rows(light, order, codec, budget, fetch, rows);
  // One that was inserted to wait has no delivery row yet: the engine holds it.
  if (!copies) {
    for (std::size_t i = before; i < rows.size(); ++i) rows[i].ref.hold = 0;
  }
  return cut;
}

// Tells the positions what has been met since `from`, and how far.
void PositionRound::note(std::size_t from) {
  const std::span<const Found> all(found_);
  const std::span<const Found> passed = all.subspan(from, passed_ - from);
  std::vector<Positions::Read> reads;
  reads.reserve(parts_.size());
  for (const Positions::Part& part : parts_) reads.push_back({.shard = part.shard});
  const auto read_of = [&](int shard) -> Positions::Read& { return reads[place_of(shard)]; };
  for (const Found& found : passed) {
    if (found.kind == Kind::copy) continue;
    read_of(found.shard)
        .met.push_back({.seq = found.seq,
                        .key = found.key,
                        .has_copy = found.has_copy,
                        .fresh = found.kind == Kind::fresh});
  }
  // The first late row of each shard that was not passed.
  std::map<int, Seq> left;
  for (const Found& found : all.subspan(passed_)) {
    if (found.kind == Kind::late) left.try_emplace(found.shard, found.seq);
  }
  const bool whole = !copies_full_;
  for (const Positions::Part& part : parts_) {
    Positions::Read& read = read_of(part.shard);
    const auto first_left = left.find(part.shard);
    if (whole && pages_.contains(part.shard)) {
      read.late_through = first_left == left.end() ? pages_.at(part.shard) : first_left->second - 1;
    }
    if (whole && looks_at(part) && first_left == left.end()) {
      read.snapshot = snapshot_;
      read.complete = !more_ && passed_ == found_.size();
    }
  }
  if (whole) {
    // Of the numbers that were asked for, some have no row any more.
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (kinds_[i] != Kind::open) continue;
      std::map<int, std::vector<Seq>> there;
      for (int row = 0; row < results_[i].rows(); ++row) {
        there[static_cast<int>(results_[i].integer(row, kShardColumn))].push_back(
            results_[i].integer(row, kSeqColumn));
      }
      for (const Positions::Part& part : parts_) {
        std::vector<Seq>& numbers = there[part.shard];
        std::sort(numbers.begin(), numbers.end());
        for (const Seq seq : part.again) {
          if (!std::binary_search(numbers.begin(), numbers.end(), seq)) {
            read_of(part.shard).gone.push_back(seq);
          }
        }
      }
    }
  }
  positions_.take(reads);
  if (!whole || !looks_) return;
  for (const auto& [shard, seq] : left) {
    if (!pages_.contains(shard)) positions_.begin_late(shard, snapshot_, seq - 1);
  }
}

}  // namespace outbox::postgres
