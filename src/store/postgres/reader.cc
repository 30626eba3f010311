#include "store/postgres/reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/bounded.h"
#include "store/postgres/connection.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

using std::chrono::microseconds;

// To look who writes costs as much as to walk over some hundred dead entries.
constexpr std::size_t kWorthALook = 200;

std::vector<std::int64_t> numbers(std::span<const int> shards) {
  return {shards.begin(), shards.end()};
}

std::vector<std::int64_t> keys_by_shard(std::span<const LaneRef> lanes) {
  std::vector<std::int64_t> keys(kShards, kNoLane);
  for (const LaneRef& lane : lanes) keys.at(static_cast<std::size_t>(lane.shard)) = lane.key;
  return keys;
}

}  // namespace

Rows Reader::ready(std::span<const int> shards, std::size_t in_flight, const ReadLimit& limit) {
  if (shards.empty()) return {};
  Session& session = database_.session();
  forget_if_new_connection();
  reset_gained(shards);
  while (true) {
    if (std::optional<Rows> rows = read(session, shards, in_flight, limit)) return *rows;
    // The server has another history than the one that the floor is of.
    forget();
  }
}

void Reader::reset_gained(std::span<const int> shards) {
  for (const int shard : shards) {
    auto& seen = generations_seen_[static_cast<std::size_t>(shard)];
    const std::uint64_t gained = generations_.of(shard);
    if (seen == gained) continue;
    seen = gained;
    floor_.reset(shard);
    rewound_ = true;
  }
}

// Nullopt if the server is not the one any more that it was.
std::optional<Rows> Reader::read(Session& session, std::span<const int> shards,
                                 std::size_t in_flight, const ReadLimit& limit) {
  // What is in flight above the floor stands before the first new row.
  const std::size_t again = rewound_ ? in_flight : std::min(in_flight, above_floor_);
  const std::size_t most =
      limit.rows + std::min(again, std::numeric_limits<std::size_t>::max() - limit.rows);

  const std::vector<std::int64_t> order = reading_order(shards);
  const bool looks = worth_a_look();
  const bool asks = asks_for_history();
  std::vector<Call> calls;
  if (looks) calls.push_back({sql::kLastSeq, Parameters()});
  if (looks) calls.push_back({sql::kWriters, Parameters()});
  if (asks) calls.push_back({kTimeline, Parameters()});
  calls.push_back(reading(order, most));
  const std::vector<Result> results = session.run_together(calls);
  if (asks && !is_same_history(results[results.size() - 2])) return std::nullopt;
  if (looks) observe(results[0], results[1]);
  if (looks) since_look_ = 0;
  Rows result;
  result.more = decode(results.back(), limit, most, result.rows);
  take(order, result);
  return result;
}

Call Reader::reading(std::span<const std::int64_t> order, std::size_t most) const {
  // Of a shard that is not to be read, nothing lies above it.
  std::vector<std::int64_t> floors(total_order_ ? kShards : order.size(),
                                   std::numeric_limits<Seq>::max());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto shard = static_cast<std::size_t>(order[i]);
    floors[total_order_ ? shard : i] = floor_.of(static_cast<int>(shard));
  }
  if (total_order_) return {sql::kReadyInOrder, Parameters(floors, sql_limit(most))};
  return {sql::kReady, Parameters(order, floors, sql_limit(most))};
}

void Reader::forget_if_new_connection() {
  if (connection_ == database_.connections()) return;
  connection_ = database_.connections();
  forget();
  history_.clear();
}

void Reader::forget() {
  floor_ = Floor();
  rewound_ = true;
}

// A pooler changes the server behind a connection and does not say so.
bool Reader::asks_for_history() const {
  const StoreConfig& config = config_of(database_);
  return !config.options.prepare && config.server->tells_history;
}

bool Reader::is_same_history(const Result& answer) {
  const std::string before = std::exchange(history_, std::string(answer.text(0, 0)));
  return before.empty() || before == history_;
}

// True if the result was cut, by its rows (`most`) or by its bytes.
bool Reader::decode(const Result& light, const ReadLimit& limit, std::size_t most,
                    std::vector<Row>& rows) {
  ByteBudget budget(limit);
  const auto fetch = [&](const std::vector<int>& large) {
    std::vector<OptionalText> ids;
    ids.reserve(large.size());
    for (const int row : large) ids.emplace_back(light.text(row, kEventIdColumn));
    return database_.run(sql::kPayloads, ids);
  };
  const bool cut = decode_light_rows(light, all_of(light), codec(), budget, fetch, rows);
  return cut || static_cast<std::size_t>(light.rows()) >= most;
}

// As given, but beginning where the last read was cut.
std::vector<std::int64_t> Reader::reading_order(std::span<const int> shards) const {
  std::vector<std::int64_t> order = numbers(shards);
  std::sort(order.begin(), order.end());
  const auto first = std::lower_bound(order.begin(), order.end(), begin_with_);
  std::rotate(order.begin(), first, order.end());
  return order;
}

bool Reader::worth_a_look() const { return since_look_ + above_floor_ >= kWorthALook; }

void Reader::observe(const Result& last, const Result& writers) {
  std::vector<Floor::Writer> open;
  open.reserve(static_cast<std::size_t>(writers.rows()));
  for (int row = 0; row < writers.rows(); ++row) {
    open.push_back({.transaction = std::string(writers.text(row, 0)),
                    .prepared = writers.integer(row, 1) != 0});
  }
  floor_.observe(last.integer(0, 0), open);
}

// Notes how far the shards have been read: all of them to their end or, if the result was
// cut, those before the last one that has a row, which was cut; in one order, all up to the
// last row.
void Reader::take(std::span<const std::int64_t> order, const Rows& result) {
  if (result.more && result.rows.empty()) return;  // all that it found is gone
  const int cut = result.more ? result.rows.back().ref.shard : -1;
  for (const std::int64_t number : order) {
    const int shard = static_cast<int>(number);
    if (total_order_) {
      floor_.read(shard, result.more ? std::optional(result.rows.back().ref.seq) : std::nullopt);
      continue;
    }
    if (shard == cut) {
      floor_.read(shard, result.rows.back().ref.seq);
      begin_with_ = shard + 1;
      break;
    }
    floor_.read(shard, std::nullopt);
  }
  above_floor_ = static_cast<std::size_t>(
      std::count_if(result.rows.begin(), result.rows.end(),
                    [&](const Row& row) { return row.ref.seq > floor_.of(row.ref.shard); }));
  since_look_ += result.rows.size();
  rewound_ = false;
}

void Reader::rewind(Seq seq) {
  floor_.rewind(seq);
  rewound_ = true;
}

DueRows Reader::due(std::span<const int> shards, const ReadLimit& limit) {
  DueRows result;
  if (shards.empty()) return result;
  // Mostly nothing is due, which is quick to find out.
  auto next = database_.run(sql::kFirstDue, numbers(shards)).optional_integer(0, 0);
  if (next && *next <= 0) {
    const Call calls[] = {{sql::kDue, Parameters(numbers(shards), sql_limit(limit.rows))},
                          {sql::kNextDue, Parameters(numbers(shards))}};
    const std::vector<Result> results = database_.session().run_together(calls);
    result.more = decode(results[0], limit, limit.rows, result.rows);
    next = results[1].optional_integer(0, 0);
  }
  if (next) result.next_in = internal::bounded(microseconds{*next});
  return result;
}

Rows Reader::held(std::span<const LaneRef> lanes, const ReadLimit& limit) {
  Rows result;
  if (lanes.empty()) return result;
  const Result light =
      lanes.size() == 1
          ? database_.run(sql::kHeld, lanes[0].shard, lanes[0].key, sql_limit(limit.rows))
          : database_.run(sql::kHeldInOrder, keys_by_shard(lanes), sql_limit(limit.rows));
  result.more = decode(light, limit, limit.rows, result.rows);
  return result;
}

std::vector<HeldLane> Reader::held_lanes(int shard, LaneKey after, std::size_t limit) {
  const Result found =
      database_.run(sql::kHeldLanes, shard, std::max<LaneKey>(after, kNoLane), sql_limit(limit));
  std::vector<HeldLane> lanes;
  lanes.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) {
    lanes.push_back({.key = found.integer(row, 0),
                     .shard = shard,
                     .first = found.integer(row, 1),
                     .status = static_cast<Status>(found.integer(row, 2)),
                     .available_in = internal::bounded(found.time(row, 3) - found.time(row, 4))});
  }
  return lanes;
}

std::vector<LaneRef> Reader::unblocked(std::span<const int> shards, std::size_t limit) {
  if (!notes_.empty()) {
    database_.run(sql::kForgetUnblocked, notes_);
    notes_.clear();
  }
  const Result found = database_.run(sql::kUnblocked, numbers(shards), sql_limit(limit));
  std::vector<LaneRef> lanes;
  for (int row = 0; row < found.rows(); ++row) {
    notes_.push_back(found.integer(row, 0));
    lanes.push_back(
        {.shard = static_cast<int>(found.integer(row, 1)), .key = found.integer(row, 2)});
  }
  return lanes;
}

}  // namespace outbox::postgres
