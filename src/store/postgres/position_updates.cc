#include "store/postgres/position_updates.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "model/event_row.h"
#include "store/postgres/position_sql.h"

namespace outbox::postgres {
namespace {

using Number = std::pair<int, Seq>;

Number number_of(const StatusUpdate& update) { return {update.row.shard, update.row.seq}; }

}  // namespace

UpdateResult PositionUpdates::apply(std::int64_t epoch, std::span<const StatusUpdate> updates) {
  const Rest rest = take(updates, epoch);
  if (rest.updates.empty()) return {};
  const Call before = copy(rest, epoch);
  UpdateResult result =
      delivery_rows_.apply(epoch, rest.updates, rest.copied.empty() ? nullptr : &before);
  if (result.fenced) return result;
  // Committed: the delivery row counts from now on.
  for (const std::size_t index : rest.copied) {
    const StatusUpdate& update = rest.updates[index];
    positions_.leave(epoch, update.row, event_key(update.event_id));
  }
  leave_out_repeats(rest, epoch, result.stale);
  for (std::size_t& index : result.stale) index = rest.index_of[index];
  return result;
}

PositionUpdates::Rest PositionUpdates::take(std::span<const StatusUpdate> updates,
                                            std::int64_t epoch) {
  Rest rest;
  // A registration that is over is fenced by the table.
  const bool present = registration_.epoch() == epoch;
  std::set<Number> in_rest;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const StatusUpdate& update = updates[i];
    const std::uint64_t key = event_key(update.event_id);
    const bool first = !in_rest.contains(number_of(update));
    if (present && first && is_done(update) && positions_.leave(epoch, update.row, key)) continue;
    if (present && first && update.kind != StatusUpdate::Kind::unblock && !is_done(update) &&
        positions_.has(epoch, update.row, key)) {
      rest.copied.push_back(rest.updates.size());
    }
    in_rest.insert(number_of(update));
    rest.updates.push_back(update);
    rest.index_of.push_back(i);
  }
  return rest;
}

Call PositionUpdates::copy(const Rest& rest, std::int64_t epoch) const {
  std::vector<std::int64_t> shards, numbers;
  std::vector<OptionalText> ids;
  for (const std::size_t index : rest.copied) {
    const StatusUpdate& update = rest.updates[index];
    shards.push_back(update.row.shard);
    numbers.push_back(update.row.seq);
    ids.emplace_back(update.event_id);
  }
  return {sql::kCopy, Parameters(owner_, epoch, shards, numbers, ids)};
}

// `done` of an event that has no delivery row and is behind the position is a repeat.
void PositionUpdates::leave_out_repeats(const Rest& rest, std::int64_t epoch,
                                        std::vector<std::size_t>& stale) {
  std::vector<OptionalText> ids;
  std::erase_if(stale, [&](std::size_t index) {
    const StatusUpdate& update = rest.updates[index];
    if (!is_done(update)) return false;
    if (positions_.has_finished(epoch, update.row, event_key(update.event_id))) return true;
    if (positions_.is_behind(epoch, update.row)) ids.emplace_back(update.event_id);
    return false;
  });
  if (ids.empty()) return;
  const Result found = database_.run(sql::kPlaces, ids);
  std::set<std::tuple<std::string_view, int, Seq>> places;
  for (int row = 0; row < found.rows(); ++row) {
    places.emplace(found.text(row, 0), static_cast<int>(found.integer(row, 1)),
                   found.integer(row, 2));
  }
  std::erase_if(stale, [&](std::size_t index) {
    const StatusUpdate& update = rest.updates[index];
    return is_done(update) && positions_.is_behind(epoch, update.row) &&
           places.contains({update.event_id, update.row.shard, update.row.seq});
  });
}

}  // namespace outbox::postgres
