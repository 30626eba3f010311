#include "store/sqlite/reader.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/bounded.h"
#include "model/event_row.h"
#include "store/sqlite/rows.h"
#include "store/sqlite/sql.h"

namespace outbox::sqlite {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// Less is no step: the two clocks are not read at the same moment.
constexpr milliseconds kTolerance{100};

constexpr std::size_t kRowsOfTransaction = 1'000;

}  // namespace

void Waits::keep(std::int64_t epoch) {
  if (epoch != epoch_) {
    epoch_ = epoch;
    last_.reset();
    left_.clear();
    start_over_ = true;
  }
  shift();  // what was left when the database failed
  const Reading now = read();
  if (last_ && offset_ - now.offset() > kTolerance) {
    note_step(offset_ - now.offset(), now);
    start_over_ = true;
  }
  offset_ = last_ && !start_over_ ? std::max(offset_, now.offset()) : now.offset();
  last_ = now;
  shift();
  if (start_over_) start_over(now.wall);
  start_over_ = false;
}

Waits::Reading Waits::read() const {
  const Clock& clock = *config_of(database_).options.clock;
  // Again, if the thread had to wait in between: that would look like a step.
  Reading reading{};
  for (int tries = 0; tries < 10; ++tries) {
    reading.steady = clock.steady();
    reading.wall = clock.now();
    if (clock.steady() - reading.steady < kTolerance / 2) break;
  }
  return reading;
}

void Waits::note_step(microseconds back, const Reading& now) {
  // Since the last look others may have written by the new time.
  const Time written_since =
      alone_ ? now.wall - std::chrono::duration_cast<microseconds>(now.steady - last_->steady) -
                   kTolerance
             : Time{microseconds{std::numeric_limits<std::int64_t>::min()}};
  std::vector<Seq> waiting;
  Run run(database_[sql::kWaiting], micros(written_since), micros(now.wall));
  while (run.step()) waiting.push_back(run.integer(0));
  by_ = back;
  written_since_ = written_since;
  left_ = std::move(waiting);
  config_of(database_).options.log(
      {LogLevel::warning,
       "clock_set_back",
       "the clock of this host was set back by " +
           std::to_string(std::chrono::duration_cast<milliseconds>(back).count()) + " ms: the " +
           std::to_string(left_.size()) + " delays that were running are set back with it",
       {{"delays", left_.size()}}});
}

void Waits::shift() {
  while (!left_.empty()) {
    const std::size_t count = std::min(left_.size(), kRowsOfTransaction);
    const std::string list = seq_list(std::span(left_).last(count));
    WriteTransaction transaction(database_);
    database_.execute(sql::kShiftWaits, list, by_.count(), micros(written_since_),
                      micros(config_of(database_).now()));
    transaction.commit();
    left_.resize(left_.size() - count);
  }
}

void Waits::start_over(Time now) {
  while (database_.integer(sql::kFutureWait, micros(now))) {
    WriteTransaction transaction(database_);
    database_.execute(sql::kRestartDelays, micros(now), kRowsOfTransaction);
    transaction.commit();
  }
  if (alone_ || !database_.integer(sql::kFutureClaim, micros(now))) return;
  WriteTransaction transaction(database_);
  database_.execute(sql::kRestartClaims, micros(now));
  transaction.commit();
}

microseconds Waits::left(Time available_at, std::optional<Time> since, Time now) {
  if (!since) return microseconds{0};
  return internal::bounded(
      std::min(available_at - now, std::max(available_at - *since, microseconds{0})));
}

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
