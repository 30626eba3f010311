#include "store/postgres/position_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "outbox/error.h"
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

// How many processes of the server may answer one after the other before a read is given up.
constexpr int kProcesses = 5;

// Numbers that a page of late rows covers at most.
constexpr Seq kLateNumbers = 100'000;

constexpr int kHasCopyColumn = kLightColumns;
constexpr int kIsLateColumn = kLightColumns + 1;
// Of the first row of a look.
constexpr int kSnapshotColumn = kPayloadColumn;
constexpr int kProcessColumn = kPayloadSizeColumn;

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

Turns::Turn::Turn(Turns& turns, milliseconds patience)
    : turns_(turns), taken_(turns.take(patience)) {}

Turns::Turn::~Turn() {
  if (taken_) turns_.give_back();
}

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

// --- A round ---

// One read of ready rows: several statements together, and what is made of their answers.
class PositionReader::Round {
 public:
  Round(PositionReader& reader, std::vector<Positions::Part> parts, std::size_t most)
      : reader_(reader), parts_(std::move(parts)), most_(most) {
    for (std::size_t place = 0; place < parts_.size(); ++place) {
      places_[static_cast<std::size_t>(parts_[place].shard)] = place;
      again_ += parts_[place].again.size();
    }
  }

  std::vector<Call> calls();

  // Takes what the calls have returned. False: the process of the server is another one than
  // before, or more rows have come late than fit, for which the next round is meant.
  bool understand(std::vector<Result> results);

  Rows rows(const ReadLimit& limit);

  // The shard in which the rows were cut; nullopt if they were not.
  std::optional<int> cut_in() const { return cut_in_; }
  bool copies_left() const { return copies_full_; }

 private:
  enum class Kind { copy, open, late, fresh };
  struct Found {
    std::size_t result = 0;
    int row = 0;
    int shard = 0;
    Seq seq = 0;
    std::uint64_t key = 0;
    Kind kind = Kind::copy;
    bool has_copy = false;
    bool wanted = true;
  };

  bool is_late(const Positions::Part& part) const { return !part.cursor.target.empty(); }
  bool any_late() const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const auto& part) { return is_late(part); });
  }
  bool looks_at(const Positions::Part& part) const {
    return looks_ && !is_late(part) && (!reader_.total_order_ || !any_late());
  }
  std::size_t place_of(int shard) const { return places_[static_cast<std::size_t>(shard)]; }
  bool before(const Found& a, const Found& b) const {
    if (reader_.total_order_) return a.seq < b.seq;
    return std::pair(place_of(a.shard), a.seq) < std::pair(place_of(b.shard), b.seq);
  }

  Call ready_copies() const;
  Call open() const;
  Call late_page();
  Call look() const;
  Seq page_end(const Positions::Part& part) const {
    return std::min(part.cursor.position, part.cursor.late_after + kLateNumbers);
  }

  void add(std::size_t result, Kind kind);
  void add_look(std::size_t result);
  void end_pages();
  bool decode(std::span<const Found> found, ByteBudget& budget, std::vector<Row>& rows);
  void note(std::span<const Found> passed);

  PositionReader& reader_;
  const std::vector<Positions::Part> parts_;
  const std::size_t most_;
  PerShard<std::size_t> places_{};
  std::size_t again_ = 0;
  bool looks_ = false;

  std::vector<Kind> kinds_;  // of the calls
  std::vector<Result> results_;
  std::vector<Found> found_;
  std::map<int, Seq> pages_;  // how far they are complete, by shard
  std::string snapshot_;      // of the look
  bool copies_full_ = false;
  bool more_ = false;
  std::optional<int> cut_in_;
};

std::vector<Call> PositionReader::Round::calls() {
  std::vector<Call> calls;
  const auto call = [&](Kind kind, Call next) {
    kinds_.push_back(kind);
    calls.push_back(std::move(next));
  };
  if (reader_.rewound_) call(Kind::copy, ready_copies());
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

Call PositionReader::Round::ready_copies() const {
  std::vector<std::int64_t> shards;
  for (const Positions::Part& part : parts_) shards.push_back(part.shard);
  return {sql::kReady,
          Parameters(shards, std::vector<std::int64_t>(shards.size(), 0), sql_limit(most_))};
}

Call PositionReader::Round::open() const {
  std::vector<std::int64_t> shards, numbers;
  for (const Positions::Part& part : parts_) {
    for (const Seq seq : part.again) {
      shards.push_back(part.shard);
      numbers.push_back(seq);
    }
  }
  return {sql::kOpen, Parameters(shards, numbers)};
}

Call PositionReader::Round::late_page() {
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

Call PositionReader::Round::look() const {
  std::vector<std::int64_t> shards, positions, copied;
  std::vector<OptionalText> snapshots;
  for (const Positions::Part& part : parts_) {
    if (!looks_at(part)) continue;
    shards.push_back(part.shard);
    positions.push_back(part.cursor.position);
    snapshots.emplace_back(part.cursor.snapshot);
    copied.push_back(part.copied_through);
  }
  return {reader_.total_order_ ? sql::kLookInOrder : sql::kLook,
          Parameters(shards, positions, snapshots, copied, one_more(most_), sql_limit(most_))};
}

bool PositionReader::Round::understand(std::vector<Result> results) {
  results_ = std::move(results);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (kinds_[i] != Kind::fresh) add(i, kinds_[i]);
  }
  if (looks_) {
    const std::size_t last = results_.size() - 1;
    add_look(last);
    if (!reader_.same_process(results_[last].integer(0, kProcessColumn))) return false;
    const auto late = std::count_if(found_.begin(), found_.end(), [&](const Found& found) {
      return found.kind == Kind::late && found.result == last;
    });
    if (static_cast<std::size_t>(late) > most_) {
      std::vector<Positions::Part> looked;
      std::copy_if(parts_.begin(), parts_.end(), std::back_inserter(looked),
                   [&](const auto& part) { return looks_at(part); });
      reader_.begin_late(looked, snapshot_);
      return false;
    }
  }
  end_pages();
  // Then there may be more of them, which come before all else.
  if (copies_full_) {
    std::erase_if(found_, [](const Found& found) { return found.kind != Kind::copy; });
    more_ = true;
  }
  std::sort(found_.begin(), found_.end(),
            [&](const Found& a, const Found& b) { return before(a, b); });
  return true;
}

void PositionReader::Round::add(std::size_t result, Kind kind) {
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
      found.wanted = reader_.positions_.wants(found.shard, found.seq, found.key, found.has_copy);
    }
    found_.push_back(found);
  }
  if (kind == Kind::copy) copies_full_ = static_cast<std::size_t>(rows.rows()) >= most_;
}

// Its first row tells of the look itself.
void PositionReader::Round::add_look(std::size_t result) {
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
    found.wanted = reader_.positions_.wants(found.shard, found.seq, found.key, found.has_copy);
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
void PositionReader::Round::end_pages() {
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
  if (!reader_.total_order_) return;
  Seq horizon = std::numeric_limits<Seq>::max();
  for (const auto& [shard, through] : pages_) {
    if (through < parts_[place_of(shard)].cursor.position) horizon = std::min(horizon, through);
  }
  for (auto& [shard, through] : pages_) through = std::min(through, horizon);
  std::erase_if(found_, [&](const Found& found) {
    return found.kind == Kind::late && pages_.contains(found.shard) && found.seq > horizon;
  });
}

Rows PositionReader::Round::rows(const ReadLimit& limit) {
  Rows result;
  ByteBudget budget(limit);
  const std::span<const Found> all(found_);
  std::size_t passed = 0;  // returned, or not wanted
  std::size_t returned = 0;
  bool cut = false;
  while (passed < all.size() && !cut) {
    // As many as come from one answer, and may be returned.
    std::size_t end = passed;
    std::vector<Found> group;
    while (end < all.size()) {
      const Found& next = all[end];
      if (next.wanted) {
        if (returned + group.size() == most_) break;
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
  note(all.first(passed));
  return result;
}

// True if the budget ended before them.
bool PositionReader::Round::decode(std::span<const Found> found, ByteBudget& budget,
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
    return reader_.database_.run(copies ? sql::kPayloads : sql::kEventPayloads, ids);
  };
  const std::size_t before = rows.size();
  const JsonCodec& codec = *config_of(reader_.database_).options.codec;
  const bool cut = decode_light_rows(light, order, codec, budget, fetch, rows);
  // One that was inserted to wait has no delivery row yet: the engine holds it.
  if (!copies) {
    for (std::size_t i = before; i < rows.size(); ++i) rows[i].ref.hold = 0;
  }
  return cut;
}

// Tells the positions what has been met, and how far.
void PositionReader::Round::note(std::span<const Found> passed) {
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
  for (const Found& found : std::span<const Found>(found_).subspan(passed.size())) {
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
      read.complete = !more_ && passed.size() == found_.size();
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
  reader_.positions_.take(reads);
  if (!whole || !looks_) return;
  for (const auto& [shard, seq] : left) {
    if (!pages_.contains(shard)) reader_.positions_.begin_late(shard, snapshot_, seq - 1);
  }
}

// --- Reading ---

Rows PositionReader::ready(std::span<const int> shards, std::size_t in_flight,
                           const ReadLimit& limit) {
  if (shards.empty() || limit.rows == 0) return {};
  const Turns::Turn turn(turns_, kReadPatience);
  if (!turn) throw RetryableError("positions are being stored, and that takes too long");
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

// What is known counts for one registration, for shards that were owned all the time, and for the
// process of the server that has told it.
void PositionReader::prepare(std::span<const int> shards) {
  database_.session();
  if (std::exchange(connection_, database_.connections()) != database_.connections()) {
    positions_.forget_cursors();
    rewound_ = true;
  }
  if (positions_.epoch() != registration_.epoch()) {
    positions_.enter(registration_.epoch());
    rewound_ = true;
  }
  for (const int shard : shards) {
    auto& seen = generations_seen_[static_cast<std::size_t>(shard)];
    const std::uint64_t gained = generations_.of(shard);
    if (std::exchange(seen, gained) == gained) continue;
    positions_.drop(shard);
    rewound_ = true;
  }
  if (const std::vector<int> missing = positions_.not_loaded(shards); !missing.empty()) {
    load(missing);
  }
}

void PositionReader::load(std::span<const int> shards) {
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

// Nullopt if another round has to follow: see Round::understand().
std::optional<Rows> PositionReader::read(std::span<const int> shards, std::size_t in_flight,
                                         const ReadLimit& limit) {
  const std::size_t most = sum(limit.rows, rewound_ ? in_flight : 0);
  Round round(*this, positions_.parts(reading_order(shards), most), most);
  const std::vector<Call> calls = round.calls();
  if (!round.understand(database_.session().run_together(calls))) return std::nullopt;
  Rows rows = round.rows(limit);
  rewound_ = round.copies_left();
  if (round.cut_in()) begin_with_ = *round.cut_in() + 1;
  return rows;
}

// As given, but beginning behind the shard in which the last read was cut.
std::vector<int> PositionReader::reading_order(std::span<const int> shards) const {
  std::vector<int> order(shards.begin(), shards.end());
  std::sort(order.begin(), order.end());
  const auto first = std::lower_bound(order.begin(), order.end(), begin_with_);
  std::rotate(order.begin(), first, order.end());
  return order;
}

// A pooler changes the process behind a connection and does not say so.
bool PositionReader::same_process(std::int64_t process) {
  if (process == process_) return true;
  positions_.forget_cursors();
  rewound_ = true;
  return false;
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
  const Turns::Turn turn(turns_, kReadPatience);
  return waiting_.due(shards, limit);
}

Rows PositionReader::held(std::span<const LaneRef> lanes, const ReadLimit& limit) {
  const Turns::Turn turn(turns_, kReadPatience);
  return waiting_.held(lanes, limit);
}

std::vector<HeldLane> PositionReader::held_lanes(int shard, LaneKey after, std::size_t limit) {
  const Turns::Turn turn(turns_, kReadPatience);
  return waiting_.held_lanes(shard, after, limit);
}

std::vector<LaneRef> PositionReader::unblocked(std::span<const int> shards, std::size_t limit) {
  const Turns::Turn turn(turns_, kReadPatience);
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
  const Turns::Turn turn(turns_, patience);
  if (!turn) throw RetryableError("positions cannot be stored while a read does not return");
  stored_at_ = SteadyClock::now();
  if (!store(epoch)) return {.fenced = true};
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
