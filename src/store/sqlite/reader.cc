#include "store/sqlite/reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/bounded.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sql.h"
#include "store/sqlite/waits.h"

namespace outbox::sqlite {

using std::chrono::microseconds;

Rows Reader::ready(std::int64_t epoch, std::size_t in_flight, const ReadLimit& limit) {
  if (epoch != floor_epoch_) {
    floor_epoch_ = epoch;
    rewind(0);
  }
  // After a rewind, what is in flight may stand before the first new row.
  std::size_t most = limit.rows;
  if (rewound_) most += std::min(in_flight, std::numeric_limits<std::size_t>::max() - most);
  ByteBudget budget(limit);
  const StoreConfig& config = config_of(database_);
  Rows result;
  Run run(database_[sql::kReady], floor_, one_more(most));
  result.more = decode_rows(run, config, most, budget, result.rows);
  if (!result.rows.empty()) floor_ = result.rows.back().ref.seq;
  rewound_ = false;
  return result;
}

void Reader::rewind(Seq seq) {
  const Seq floor = std::max<Seq>(seq - 1, 0);
  if (floor >= floor_) return;
  floor_ = floor;
  rewound_ = true;
}

DueRows Reader::due(const ReadLimit& limit) {
  const StoreConfig& config = config_of(database_);
  const Time now = config.now();
  const std::int64_t latest = hold_until(now);

  // One moment after the other: sorting by (hold descending, seq ascending) in
  // one statement would read and sort all that is due, and a mass replay makes
  // a hundred thousand rows due at one moment.
  DueRows result;
  ByteBudget budget(limit);
  std::int64_t below = 0;
  while (!result.more) {
    const auto hold = database_.integer(sql::kEarliest, below);
    if (!hold) return result;
    below = *hold;
    if (below < latest) break;
    Run run(database_[sql::kDueAt], below, one_more(limit.rows - result.rows.size()));
    result.more = decode_rows(run, config, limit.rows, budget, result.rows);
  }
  if (const auto next = database_.integer(sql::kEarliest, latest)) {
    result.next_in = internal::bounded(microseconds{-(*next + micros(now))});
  }
  return result;
}

Rows Reader::held(LaneKey key, const ReadLimit& limit) {
  const StoreConfig& config = config_of(database_);
  Rows result;
  ByteBudget budget(limit);
  Run run(database_[sql::kHeld], key, one_more(limit.rows));
  result.more = decode_rows(run, config, limit.rows, budget, result.rows);
  return result;
}

std::vector<HeldLane> Reader::held_lanes(LaneKey after, std::size_t limit) {
  const Time now = config_of(database_).now();
  std::vector<HeldLane> lanes;
  LaneKey last = std::max<LaneKey>(after, kNoLane);
  while (lanes.size() < limit) {
    Run run(database_[sql::kHeldLane], last);
    if (!run.step()) break;
    last = run.integer(0);
    lanes.push_back(
        {.key = last,
         .shard = 0,
         .first = run.integer(1),
         .status = static_cast<Status>(run.integer(2)),
         .available_in = Waits::left(stored_time(run.integer(3)), waits_since(run, 4, 5), now)});
  }
  return lanes;
}

std::vector<LaneRef> Reader::unblocked(std::size_t limit) {
  if (!notes_.empty()) {
    const std::string list = seq_list(notes_);
    WriteTransaction transaction(database_);
    database_.execute(sql::kForgetUnblocked, list);
    transaction.commit();
    notes_.clear();
  }
  std::vector<LaneRef> lanes;
  Run run(database_[sql::kUnblocked], sql_limit(limit));
  while (run.step()) {
    notes_.push_back(run.integer(0));
    lanes.push_back({.shard = 0, .key = run.integer(1)});
  }
  return lanes;
}

}  // namespace outbox::sqlite
