#include "store/postgres/position_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "outbox/error.h"
#include "store/postgres/position_round.h"
#include "store/postgres/position_sql.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;

// How often a position is stored at most, unless so many events have been finished.
constexpr milliseconds kFlushInterval{50};
constexpr std::size_t kFlushEvents = 1'000;

// A read waits for a flush, and a flush for a read, as long as calls may take.
constexpr milliseconds kReadPatience{60'000};

// A look costs as much as it does to read some hundred rows: so many are looked for at once, and
// kept until they are asked for.
constexpr std::size_t kReadAhead = 500;

// How many processes of the server may answer one after the other before a read is given up.
constexpr int kProcesses = 5;

std::vector<Seq> numbers_in(std::string_view array) {
  std::vector<Seq> numbers;
  const char* at = array.data() + 1;  // {1,2,3}
  const char* const end = array.data() + array.size() - 1;
  while (at < end) {
    at = std::from_chars(at, end, numbers.emplace_back()).ptr + 1;
  }
  return numbers;
}

std::string array_of(std::span<const Seq> numbers) {
  std::string text = "{";
  for (const Seq number : numbers) {
    if (text.size() > 1) text.push_back(',');
    text.append(std::to_string(number));
  }
  return text + "}";
}

// What was finished before the connection was lost is stored when it has been met again.
FlushResult until_next_read() { return {.next_in = kFlushInterval}; }

std::size_t sum(std::size_t a, std::size_t b) {
  return a + std::min(b, std::numeric_limits<std::size_t>::max() - a);
}

}  // namespace

// --- Turns ---

Turns::Turn::Turn(Turns& turns, milliseconds patience, const char* why_not) : turns_(turns) {
  if (!turns_.take(patience)) throw RetryableError(why_not);
}

Turns::Turn::~Turn() { turns_.give_back(); }

// False if it could not be had in time.
bool Turns::take(milliseconds patience) {
  const auto deadline = SteadyClock::now() + patience;
  MutexLock lock(mutex_);
  while (taken_) {
    if (!free_.wait_until(mutex_, deadline)) break;
  }
  return !std::exchange(taken_, true);
}

void Turns::give_back() {
  MutexLock lock(mutex_);
  taken_ = false;
  free_.notify_one();
}

// --- Reading ---

Rows PositionReader::ready(std::span<const int> shards, std::size_t in_flight,
                           const ReadLimit& limit) {
  if (shards.empty() || limit.rows == 0) return {};
  const Turns::Turn turn = turn_to_read();
  for (int tries = 0; tries < kProcesses; ++tries) {
    prepare(shards);
    // Late rows that do not fit are read in another round, for as long as it takes.
    if (std::optional<Rows> rows = read(shards, in_flight, limit)) return *std::move(rows);
  }
  throw RetryableError("each call is answered by another process of the server (" +
                       config_of(database_).description +
                       "): progress by position needs connections of its own, not those of a "
                       "pooler in transaction mode");
}

Turns::Turn PositionReader::turn_to_read() {
  return Turns::Turn(turns_, kReadPatience, "positions are being stored, and that takes too long");
}

// What is known counts for one registration, for shards that were owned all the time, and for the
// process of the server that has told it.
void PositionReader::prepare(std::span<const int> shards) {
  database_.session();
  if (rewound_ || !std::equal(shards.begin(), shards.end(), ahead_of_.begin(), ahead_of_.end())) {
    ahead_.reset();
  }
  if (std::exchange(connection_, database_.connections()) != database_.connections()) {
    positions_.forget_cursors();
    ahead_.reset();
    rewound_ = true;
  }
  if (positions_.epoch() != registration_.epoch()) {
    positions_.enter(registration_.epoch());
    ahead_.reset();
    rewound_ = true;
  }
  for (const int shard : shards) {
    auto& seen = generations_seen_[static_cast<std::size_t>(shard)];
    const std::uint64_t gained = generations_.of(shard);
    if (std::exchange(seen, gained) == gained) continue;
    positions_.drop(shard);
    ahead_.reset();
    rewound_ = true;
  }
  if (const std::vector<int> missing = positions_.not_loaded(shards); !missing.empty()) {
    load(missing);
  }
}

void PositionReader::load(std::span<const int> shards) {
  ahead_.reset();
  const Result stored =
      database_.run(sql::kCursors, std::vector<std::int64_t>(shards.begin(), shards.end()));
  if (static_cast<std::size_t>(stored.rows()) != shards.size()) {
    throw PermanentError("positions are missing in the table " +
                         config_of(database_).table.qualified("cursor") + " (" +
                         config_of(database_).description + "): restore its rows");
  }
  for (int row = 0; row < stored.rows(); ++row) {
    process_ = stored.integer(row, 6);
    positions_.load(static_cast<int>(stored.integer(row, 0)),
                    {.position = stored.integer(row, 1),
                     .snapshot = std::string(stored.text(row, 2)),
                     .target = std::string(stored.text(row, 4)),
                     .late_after = stored.integer(row, 5)},
                    numbers_in(stored.text(row, 3)), stored.integer(row, 7));
  }
}

// Nullopt if another round has to follow.
std::optional<Rows> PositionReader::read(std::span<const int> shards, std::size_t in_flight,
                                         const ReadLimit& limit) {
  const std::size_t most = sum(limit.rows, rewound_ ? in_flight : 0);
  if (!ahead_ && !look(shards, most)) return std::nullopt;
  Rows rows = ahead_->rows(limit, most);
  rewound_ = ahead_->copies_left();
  if (ahead_->cut_in()) begin_with_ = *ahead_->cut_in() + 1;
  if (!ahead_->has_more()) ahead_.reset();
  return rows;
}

// False if that came to nothing.
bool PositionReader::look(std::span<const int> shards, std::size_t most) {
  const std::size_t asked = rewound_ ? most : std::max(most, kReadAhead);
  PositionRound round(database_, positions_,
                      {.total_order = total_order_, .with_copies = rewound_, .process = process_},
                      positions_.parts(reading_order(shards), asked), asked);
  const std::vector<Call> calls = round.calls();
  switch (round.understand(database_.session().run_together(calls))) {
    case PositionRound::Outcome::complete:
      break;
    case PositionRound::Outcome::other_process:  // behind a pooler, which does not say so
      positions_.forget_cursors();
      rewound_ = true;
      return false;
    case PositionRound::Outcome::too_many_late:
      begin_late(round.looked(), round.snapshot());
      return false;
  }
  ahead_.emplace(std::move(round));
  ahead_of_.assign(shards.begin(), shards.end());
  return true;
}

// As given, but beginning behind the shard in which the last read was cut.
std::vector<int> PositionReader::reading_order(std::span<const int> shards) const {
  std::vector<int> order(shards.begin(), shards.end());
  std::sort(order.begin(), order.end());
  const auto first = std::lower_bound(order.begin(), order.end(), begin_with_);
  std::rotate(order.begin(), first, order.end());
  return order;
}

void PositionReader::begin_late(std::span<const Positions::Part> parts,
                                const std::string& snapshot) {
  std::vector<std::int64_t> shards, positions;
  std::vector<OptionalText> snapshots;
  for (const Positions::Part& part : parts) {
    shards.push_back(part.shard);
    positions.push_back(part.cursor.position);
    snapshots.emplace_back(part.cursor.snapshot);
  }
  const Result first = database_.run(sql::kFirstLate, shards, positions, snapshots, snapshot);
  for (int row = 0; row < first.rows(); ++row) {
    positions_.begin_late(static_cast<int>(first.integer(row, 0)), snapshot,
                          first.integer(row, 1) - 1);
  }
}

void PositionReader::rewind(Seq seq) {
  positions_.rewind(seq);
  rewound_ = true;
}

DueRows PositionReader::due(std::span<const int> shards, const ReadLimit& limit) {
  const Turns::Turn turn = turn_to_read();
  return waiting_.due(shards, limit);
}

Rows PositionReader::held(std::span<const LaneRef> lanes, const ReadLimit& limit) {
  const Turns::Turn turn = turn_to_read();
  return waiting_.held(lanes, limit);
}

std::vector<HeldLane> PositionReader::held_lanes(int shard, LaneKey after, std::size_t limit) {
  const Turns::Turn turn = turn_to_read();
  return waiting_.held_lanes(shard, after, limit);
}

std::vector<LaneRef> PositionReader::unblocked(std::span<const int> shards, std::size_t limit) {
  const Turns::Turn turn = turn_to_read();
  return waiting_.unblocked(shards, limit);
}

// --- Storing ---

FlushResult PositionReader::flush(std::int64_t epoch, bool at_once, milliseconds patience) {
  if (epoch != positions_.epoch()) return {};
  const std::size_t unstored = positions_.unstored();
  if (unstored == 0) return positions_.remembers_any() ? until_next_read() : FlushResult{};
  const auto due = stored_at_.load() + kFlushInterval;
  const auto now = SteadyClock::now();
  if (!at_once && unstored < kFlushEvents && now < due) {
    return {.next_in = std::chrono::ceil<milliseconds>(due - now)};
  }
  const Turns::Turn turn(turns_, patience,
                         "positions cannot be stored while a read does not return");
  // A store that fails leaves it due: "not yet" would pass for a success.
  if (!store(epoch)) return {.fenced = true};
  stored_at_ = SteadyClock::now();
  if (positions_.unstored() > 0) return {.next_in = kFlushInterval};
  return positions_.remembers_any() ? until_next_read() : FlushResult{};
}

// False if fenced.
bool PositionReader::store(std::int64_t epoch) {
  Session& session = database_.session();
  // What is in memory belongs to a connection that is gone; the next read looks from what is
  // stored, and what was finished since is remembered by its id.
  if (connection_ != database_.connections()) {
    positions_.forget_cursors();
    return true;
  }
  const std::vector<Positions::Stored> shards = positions_.begin_storing();
  if (shards.empty()) return true;
  std::vector<std::int64_t> numbers, positions, late;
  std::vector<std::string> open;
  std::vector<OptionalText> snapshots, opens, targets;
  open.reserve(shards.size());
  for (const Positions::Stored& one : shards) {
    open.push_back(array_of(one.open));
    numbers.push_back(one.shard);
    positions.push_back(one.cursor.position);
    snapshots.emplace_back(one.cursor.snapshot);
    opens.emplace_back(open.back());
    targets.push_back(null_if_empty(one.cursor.target));
    late.push_back(one.cursor.late_after);
  }
  try {
    const Result answer = session.run_at_once(sql::kFlush, owner_, epoch, process_, numbers,
                                              positions, snapshots, opens, targets, late);
    std::vector<std::int64_t> told;
    told.reserve(static_cast<std::size_t>(answer.rows()));
    for (int row = 0; row < answer.rows(); ++row) told.push_back(answer.integer(row, 0));
    const auto says = [&](std::int64_t what) {
      return std::find(told.begin(), told.end(), what) != told.end();
    };
    if (says(sql::kOtherProcess)) {
      positions_.not_stored();
      positions_.forget_cursors();
      return true;
    }
    if (!says(sql::kNotFenced)) {
      positions_.enter(0);
      return false;
    }
    positions_.stored(shards);
    // Others are not owned any more.
    for (const std::int64_t shard : numbers) {
      if (!says(shard)) positions_.drop(static_cast<int>(shard));
    }
    return true;
  } catch (...) {
    positions_.not_stored();
    throw;
  }
}

}  // namespace outbox::postgres
