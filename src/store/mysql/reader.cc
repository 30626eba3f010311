#include "store/mysql/reader.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/bounded.h"
#include "client/mysql/database.h"
#include "client/mysql/libmariadb.h"
#include "model/event_row.h"
#include "outbox/error.h"
#include "store/mysql/connection.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {
namespace {

using std::chrono::microseconds;

// A look at all shards costs as much as to fetch a hundred rows.
constexpr std::size_t kAhead = 500;

constexpr Seq kEverything = std::numeric_limits<Seq>::max();

// One SELECT for each shard, all in one statement: the server sees one snapshot. `values(shard)`:
// those that the statement takes.
template <class Values>
Built for_each_shard(const SqlTemplate& sql, const SqlContext& context, std::span<const int> shards,
                     const Values& values) {
  Built statement(sql.purpose, context);
  for (const int shard : shards) {
    if (shard != shards.front()) statement.sql(" UNION ALL ");
    statement.sql("(");
    std::apply([&](const auto&... each) { statement.fill(sql.text, each...); }, values(shard));
    statement.sql(")");
  }
  return statement;
}

// The rows of several lanes, by the numbers of the first of them in each.
Built held_in_order(const SqlContext& context, std::span<const LaneRef> lanes, std::int64_t most) {
  Built numbers(sql::kHeldInOrder.purpose, context);
  for (const LaneRef& lane : lanes) {
    if (&lane != &lanes.front()) numbers.sql(" UNION ALL ");
    numbers.sql("(");
    numbers.fill(sql::kHeldNumbers.text, lane.shard, lane.key, most);
    numbers.sql(")");
  }
  return Built(sql::kHeldInOrder, context, numbers, most);
}

}  // namespace

Rows Reader::ready(std::span<const int> shards, std::size_t /*in_flight*/, const ReadLimit& limit) {
  Rows result;
  if (shards.empty() || limit.rows == 0) return result;
  forget_what_was_lost(shards);
  forget_other_connections();
  try {
    std::vector<Seq> seqs = settled(limit.rows);
    if (seqs.empty()) {
      const std::vector<int> order = reading_order(shards);
      const std::size_t wanted = ahead_.size() + std::max(limit.rows, kAhead);
      do {
        look_for_ready(order, wanted);
      } while (ahead_.size() < wanted && more_of(shards));
      seqs = settled(limit.rows);
      // What was found just now: a second look has it settled.
      if (seqs.empty() && !ahead_.empty()) {
        look_for_ready(total_order_ ? order : shards_ahead(), ahead_.size() + limit.rows);
        seqs = settled(limit.rows);
      }
    }
    // Some may be gone, and some may contradict themselves: those behind them do not wait.
    for (; !seqs.empty(); seqs = settled(limit.rows)) {
      result = fetch(seqs, "hold = 0", limit);
      // What was cut off is fetched by the next read.
      Seq through = seqs.back();
      if (result.more) through = result.rows.empty() ? 0 : result.rows.back().ref.seq;
      std::erase_if(ahead_, [&](const Found& row) { return row.settled && row.seq <= through; });
      if (!result.rows.empty() || result.more) break;
    }
    result.more = !ahead_.empty() || more_of(shards);
  } catch (...) {
    rewind(0);  // what was found was not returned
    throw;
  }
  return result;
}

// The first `limit`.
std::vector<Seq> Reader::settled(std::size_t limit) const {
  std::vector<Seq> seqs;
  for (const Found& row : ahead_) {
    if (seqs.size() == limit) break;
    if (row.settled) seqs.push_back(row.seq);
  }
  return seqs;
}

// Those of which something was found and not returned yet.
std::vector<int> Reader::shards_ahead() const {
  std::vector<int> shards;
  for (const Found& row : ahead_) shards.push_back(row.shard);
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  return shards;
}

void Reader::settle(int shard, Seq through) {
  for (Found& row : ahead_) {
    if (row.shard == shard && row.seq <= through) row.settled = true;
  }
}

bool Reader::more_of(std::span<const int> shards) {
  return std::any_of(shards.begin(), shards.end(), [&](int shard) { return part(shard).cut; });
}

// A new connection may lead to a primary that has lost commits, and has other rows under
// their numbers.
void Reader::forget_other_connections() {
  database_.ensure_connected();
  if (std::exchange(found_by_, database_.connections()) != database_.connections()) rewind(0);
}

// Of shards that are not owned any more, or were acquired again.
void Reader::forget_what_was_lost(std::span<const int> shards) {
  PerShard<bool> kept{};
  for (const int shard : shards) {
    Part& known = part(shard);
    const std::uint64_t gained = generations_.of(shard);
    kept[static_cast<std::size_t>(shard)] = std::exchange(known.generations_seen, gained) == gained;
  }
  for (int shard = 0; shard < kShards; ++shard) {
    if (!kept[static_cast<std::size_t>(shard)]) part(shard).found.clear();
  }
  std::erase_if(ahead_,
                [&](const Found& row) { return !kept[static_cast<std::size_t>(row.shard)]; });
}

// As given, but beginning where the last read was cut.
std::vector<int> Reader::reading_order(std::span<const int> shards) const {
  std::vector<int> order(shards.begin(), shards.end());
  std::sort(order.begin(), order.end());
  std::rotate(order.begin(), std::lower_bound(order.begin(), order.end(), begin_with_),
              order.end());
  return order;
}

// How many new rows of a shard to look for: an even part, but shards that had more the
// last time get what the limit leaves. The server would look for as many as it is told
// to in every one of them.
std::size_t Reader::new_rows_of(int shard, std::span<const int> shards, std::size_t limit) {
  const std::size_t even = limit / shards.size() + 1;
  const auto cut = static_cast<std::size_t>(
      std::count_if(shards.begin(), shards.end(), [&](int each) { return part(each).cut; }));
  return part(shard).cut ? std::max(even, limit / cut + 1) : even;
}

// Adds rows that are ready and were not found before, until there are `limit`.
void Reader::look_for_ready(std::span<const int> order, std::size_t limit) {
  PerShard<std::size_t> wanted{};
  for (const int shard : order) {
    wanted[static_cast<std::size_t>(shard)] =
        part(shard).found.size() + new_rows_of(shard, order, limit);
  }
  Session& session = database_.session();
  const Result keys =
      session.run(for_each_shard(sql::kReady, config_of(database_), order, [&](int shard) {
        return std::tuple(shard, wanted[static_cast<std::size_t>(shard)]);
      }));
  PerShard<std::vector<Seq>> ready;
  for (int row = 0; row < keys.rows(); ++row) {
    ready[static_cast<std::size_t>(keys.integer(row, 0))].push_back(keys.integer(row, 1));
  }

  const bool clean_cuts = mariadb_connection(database_.handle()) == 0;
  const std::size_t known_before = ahead_.size();
  Seq settled_in_all = kEverything;
  for (const int shard : order) {
    Part& known = part(shard);
    const std::vector<Seq>& all = ready[static_cast<std::size_t>(shard)];
    known.cut = all.size() >= wanted[static_cast<std::size_t>(shard)];
    const Seq settled_here = settled_through(known.found, all, known.cut);
    if (!total_order_) settle(shard, settled_here);
    settled_in_all = std::min(settled_in_all, settled_here);
  }
  if (total_order_) {
    for (const int shard : order) settle(shard, settled_in_all);
  }
  const Seq complete = total_order_ ? complete_through(order, ready, limit) : kEverything;
  std::optional<int> left_out;
  for (const int shard : order) {
    Part& known = part(shard);
    std::unordered_set<Seq> found;
    for (const Seq seq : ready[static_cast<std::size_t>(shard)]) {
      if (!known.found.contains(seq)) {
        if (seq > complete || (!total_order_ && ahead_.size() >= limit)) {
          known.cut = true;
          if (!left_out) left_out = shard;
          continue;
        }
        ahead_.push_back({.shard = shard, .seq = seq, .settled = clean_cuts});
      }
      found.insert(seq);
    }
    known.found = std::move(found);
  }
  begin_with_ = left_out.value_or(begin_with_);
  std::sort(ahead_.begin(), ahead_.end(),
            [](const Found& a, const Found& b) { return a.seq < b.seq; });
  // Once for all of them, however many reads fetch them.
  if (ahead_.size() > known_before) sync_log(session, order.front());
}

// In one order of all shards: up to which row a look has all that is new, and no more than fills
// ahead_ up to the limit.
Seq Reader::complete_through(std::span<const int> order, const PerShard<std::vector<Seq>>& ready,
                             std::size_t limit) {
  Seq through = kEverything;
  std::vector<Seq> fresh;
  for (const int shard : order) {
    const std::vector<Seq>& all = ready[static_cast<std::size_t>(shard)];
    if (part(shard).cut) through = std::min(through, all.back());
    std::copy_if(all.begin(), all.end(), std::back_inserter(fresh),
                 [&](Seq seq) { return !part(shard).found.contains(seq); });
  }
  const std::size_t room = limit - std::min(limit, ahead_.size());
  if (fresh.size() > room) {
    std::nth_element(fresh.begin(), fresh.begin() + static_cast<std::ptrdiff_t>(room), fresh.end());
    through = std::min(through, fresh[room] - 1);
  }
  return through;
}

Seq settled_through(const std::unordered_set<Seq>& found, std::span<const Seq> ready, bool cut) {
  const auto fresh =
      std::find_if(ready.begin(), ready.end(), [&](Seq seq) { return !found.contains(seq); });
  if (fresh != ready.end()) return *fresh - 1;
  if (!cut) return kEverything;
  return ready.empty() ? 0 : ready.back();
}

// In the order in which they are given. `more`: those that are left out at the end are
// too large.
Rows Reader::fetch(std::span<const Seq> seqs, std::string_view condition, const ReadLimit& limit) {
  Rows result;
  if (seqs.empty()) return result;
  Session& session = database_.session();
  if (database_.connections() != found_by_) {
    throw RetryableError("the connection was lost between finding events and reading them (" +
                         config_of(database_).description + "): it is repeated");
  }
  ByteBudget budget(limit);
  in_portions<Seq>(session, seqs, [&](std::span<const Seq> part) {
    if (result.more) return;
    const Result light =
        session.run(Built(sql::kFetch, config_of(database_), part, SqlPart{condition}));
    std::unordered_map<Seq, std::size_t> place;
    for (const Seq seq : part) place.emplace(seq, place.size());
    std::vector<int> order = all_of(light);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return place.at(light.integer(a, kSeqColumn)) < place.at(light.integer(b, kSeqColumn));
    });
    result.more = decode_light_rows(session, light, order, budget, result.rows);
  });
  return result;
}

void Reader::rewind(Seq seq) {
  for (Part& known : parts_) {
    std::erase_if(known.found, [&](Seq found) { return found >= seq; });
  }
  for (const Found& row : ahead_) part(row.shard).found.erase(row.seq);
  ahead_.clear();
}

DueRows Reader::due(std::span<const int> shards, const ReadLimit& limit) {
  DueRows result;
  if (shards.empty()) return result;
  forget_other_connections();
  std::optional<Next> next = next_due(shards, 0);
  if (next && next->hold >= -next->now) {
    const std::int64_t now = next->now;
    const std::vector<Key> keys = look_for_due(shards, now, limit.rows);
    std::vector<Seq> seqs;
    seqs.reserve(keys.size());
    for (const Key& key : keys) seqs.push_back(key.seq);
    Rows read = fetch(seqs, "hold < 0", limit);
    result.rows = std::move(read.rows);
    result.more = read.more || keys.size() >= limit.rows;
    next = next_due(shards, now);
  }
  if (next) result.next_in = internal::bounded(microseconds{-next->hold - next->now});
  return result;
}

// The first row that is due later than `moment`. One row of each shard: to have the
// server group them would let MariaDB visit all that wait.
std::optional<Reader::Next> Reader::next_due(std::span<const int> shards, std::int64_t moment) {
  const Result found =
      database_.run(for_each_shard(sql::kNextDue, config_of(database_), shards,
                                   [&](int shard) { return std::tuple(shard, -moment); }));
  std::optional<Next> first;
  for (int row = 0; row < found.rows(); ++row) {
    const std::int64_t hold = found.integer(row, 0);
    if (!first || hold > first->hold) first = {.hold = hold, .now = found.integer(row, 1)};
  }
  return first;
}

// The earliest, those due at the same moment by seq. A backward walk over the index
// would turn the latter round; so only the last moment is found by it, and the rows of
// that moment are looked for forward.
std::vector<Reader::Key> Reader::look_for_due(std::span<const int> shards, std::int64_t now,
                                              std::size_t limit) {
  const StoreConfig& config = config_of(database_);
  Session& session = database_.session();
  const Result moments = session.run(for_each_shard(
      sql::kDueMoments, config, shards, [&](int shard) { return std::tuple(shard, -now, limit); }));
  std::vector<std::int64_t> holds;
  holds.reserve(static_cast<std::size_t>(moments.rows()));
  for (int row = 0; row < moments.rows(); ++row) holds.push_back(moments.integer(row, 0));
  if (holds.empty()) return {};
  const auto last_place = static_cast<std::ptrdiff_t>(std::min(limit, holds.size())) - 1;
  std::nth_element(holds.begin(), holds.begin() + last_place, holds.end(), std::greater<>());
  const std::int64_t last = holds[static_cast<std::size_t>(last_place)];

  const Result found = session.run(for_each_shard(sql::kDue, config, shards, [&](int shard) {
    return std::tuple(shard, last, limit, shard, last, limit);
  }));
  std::vector<Key> keys;
  keys.reserve(static_cast<std::size_t>(found.rows()));
  for (int row = 0; row < found.rows(); ++row) {
    keys.push_back({.hold = found.integer(row, 0), .seq = found.integer(row, 1)});
  }
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) {
    return a.hold != b.hold ? a.hold > b.hold : a.seq < b.seq;
  });
  keys.resize(std::min(keys.size(), limit));
  if (!keys.empty()) sync_log(session, shards.front());
  return keys;
}

Rows Reader::held(std::span<const LaneRef> lanes, const ReadLimit& limit) {
  Rows result;
  if (lanes.empty()) return result;
  Session& session = database_.session();
  const std::int64_t most = sql_limit(limit.rows);
  const Result light = lanes.size() == 1
                           ? session.run(sql::kHeld, lanes[0].shard, lanes[0].key, most)
                           : session.run(held_in_order(config_of(database_), lanes, most));
  if (light.rows() > 0) sync_log(session, lanes[0].shard);
  ByteBudget budget(limit);
  const bool cut = decode_light_rows(session, light, all_of(light), budget, result.rows);
  result.more = cut || static_cast<std::size_t>(light.rows()) >= limit.rows;
  return result;
}

std::vector<HeldLane> Reader::held_lanes(int shard, LaneKey after, std::size_t limit) {
  std::vector<HeldLane> lanes;
  after = std::max<LaneKey>(after, kNoLane);
  while (lanes.size() < limit) {
    const Result head = database_.run(sql::kNextLane, shard, after);
    if (head.rows() == 0) break;
    after = head.integer(0, 0);
    lanes.push_back({.key = after,
                     .shard = shard,
                     .first = head.integer(0, 1),
                     .status = static_cast<Status>(head.integer(0, 2)),
                     .available_in = internal::bounded(head.time(0, 3) - head.time(0, 4))});
  }
  return lanes;
}

std::vector<LaneRef> Reader::unblocked(std::span<const int> shards, std::size_t limit) {
  std::vector<LaneRef> lanes;
  if (shards.empty()) return lanes;
  const StoreConfig& config = config_of(database_);
  if (!notes_.empty()) {
    const Built forget(sql::kForgetUnblocked, config, notes_);
    retry_on_deadlock(database_, [&] { return database_.run(forget); });
    notes_.clear();
  }
  const Result found = database_.run(Built(sql::kUnblocked, config, shards, sql_limit(limit)));
  for (int row = 0; row < found.rows(); ++row) {
    notes_.push_back(found.integer(row, 0));
    lanes.push_back(
        {.shard = static_cast<int>(found.integer(row, 1)), .key = found.integer(row, 2)});
  }
  return lanes;
}

bool decode_light_rows(Session& session, const Result& light, std::span<const int> order,
                       ByteBudget& budget, std::vector<Row>& rows) {
  const auto fetch = [&](const std::vector<int>& large) {
    std::vector<Seq> seqs;
    seqs.reserve(large.size());
    for (const int row : large) seqs.push_back(light.integer(row, kSeqColumn));
    return session.run(Built(sql::kLargePayloads, config_of(session), seqs));
  };
  return decode_light_rows(light, order, *config_of(session).options.codec, budget, fetch, rows);
}

void sync_log(Session& session, int shard) {
  if (!session.shows_commits_early()) return;
  // An UPDATE that changes nothing would be no write.
  if (session.run(sql::kFlush, shard).changed() == 1) return;
  const std::string table = config_of(session).table.text() + "_flush";
  throw PermanentError("the table " + table + " has no row of shard " + std::to_string(shard) +
                       " (" + config_of(session).description +
                       "), which is written after a read; INSERT INTO " + table +
                       " (shard) VALUES (" + std::to_string(shard) + ") puts it back");
}

}  // namespace outbox::mysql
