#include "store/mysql/updates.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/bounded.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "client/mysql/database.h"
#include "model/event_row.h"
#include "model/shards.h"
#include "outbox/error.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {
namespace {

bool is_pending(Status status) { return status == Status::pending || status == Status::retry; }

std::vector<Seq> seqs_of(std::span<const StatusUpdate> updates) {
  std::vector<Seq> seqs;
  seqs.reserve(updates.size());
  for (const StatusUpdate& update : updates) seqs.push_back(update.row.seq);
  return seqs;
}

// The first updates whose texts fit into a statement; one at least.
template <class BytesOf>
std::size_t fitting(std::span<const StatusUpdate> updates, std::size_t most,
                    const BytesOf& bytes_of) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  while (count < updates.size()) {
    bytes += bytes_of(updates[count]);
    if (bytes > most && count > 0) break;
    ++count;
  }
  return count;
}

// Of one in finish(): its number twice, and its id.
std::size_t name_bytes(const StatusUpdate& update) {
  constexpr std::size_t kBesides = 64;
  return kBesides + 2 * update.event_id.size();
}

}  // namespace

UpdateResult Updates::apply(std::int64_t epoch, std::span<const StatusUpdate> updates) {
  if (updates.empty()) return {};
  const std::optional<Fence> fence = fence_for(epoch);
  if (!fence) return {.fenced = true};
  const std::vector<StatusUpdate> cut = with_errors_that_fit(updates);
  updates = cut;
  if (write(updates, *fence)) return {};
  // An epoch that is gone does not come back: one that is still there was there.
  const std::optional<std::vector<bool>> owned = owned_shards(*fence);
  if (!owned) return {.fenced = true};
  Unchanged unchanged = look_for_unchanged(updates, *owned);
  if (!unchanged.moved.empty() && !write(unchanged.moved, *fence)) {
    const Unchanged again = look_for_unchanged(unchanged.moved, *owned);
    for (const std::size_t i : again.stale) unchanged.stale.push_back(unchanged.index_of[i]);
    for (const std::size_t i : again.index_of) unchanged.stale.push_back(unchanged.index_of[i]);
    std::sort(unchanged.stale.begin(), unchanged.stale.end());
  }
  return {.stale = std::move(unchanged.stale)};
}

// Absent if the epoch is over.
std::optional<Updates::Fence> Updates::fence_for(std::int64_t epoch) const {
  if (row_claims_) return Fence{.epoch = epoch};
  const std::optional<std::string> name = database_.registration()->name_of(epoch);
  if (!name) return std::nullopt;
  return Fence{.epoch = epoch, .name = *name};
}

std::vector<Built> Updates::statements_for(std::span<const StatusUpdate> updates,
                                           const Fence& fence, std::size_t most) const {
  std::vector<Built> statements;
  while (!updates.empty()) {
    const std::span<const StatusUpdate> group = first_of_each_row(updates);
    updates = updates.subspan(group.size());
    std::vector<StatusUpdate> done, others;
    for (const StatusUpdate& update : group) (is_done(update) ? done : others).push_back(update);
    for (std::span<const StatusUpdate> left = done; !left.empty();) {
      const std::span<const StatusUpdate> part = left.first(fitting(left, most, name_bytes));
      left = left.subspan(part.size());
      statements.push_back(finish(part, fence));
    }
    for (std::span<const StatusUpdate> left = others; !left.empty();) {
      const std::span<const StatusUpdate> part = left.first(fitting(
          left, most, [&](const StatusUpdate& update) { return item(update).text().size(); }));
      left = left.subspan(part.size());
      statements.push_back(change(part, fence));
    }
  }
  return statements;
}

// Of an error that does not fit into a statement, its beginning: to store it must not fail
// the update. What else does not fit cannot be helped.
std::vector<StatusUpdate> Updates::with_errors_that_fit(std::span<const StatusUpdate> updates) {
  const std::size_t most = value_bytes(database_.session());
  std::vector<StatusUpdate> result(updates.begin(), updates.end());
  for (StatusUpdate& update : result) {
    std::size_t bytes = is_done(update) ? 0 : item(update).text().size();
    while (bytes > most && !update.error.empty()) {
      update.error.resize(update.error.size() / 2);
      update.error.resize(valid_utf8_prefix(update.error));
      bytes = item(update).text().size();
    }
    if (bytes <= most) continue;
    throw PermanentError(
        "the update of event " + quote(update.event_id) + " has " + std::to_string(bytes) +
        " bytes, and the server takes " + std::to_string(database_.session().max_packet()) + " (" +
        config_of(database_).description + "): raise max_allowed_packet on the server");
  }
  return result;
}

// A row of change(); the first one names the columns.
Built Updates::item(const StatusUpdate& update, bool first) const {
  Built select = part();
  const auto column = [&](std::string_view name, const auto& value) {
    if (name != "number") select.sql(",");
    select.value(value);
    if (first) select.sql(" AS ").sql(name);
  };
  select.sql(first ? "SELECT " : " UNION ALL SELECT ");
  column("number", update.row.seq);
  column("id", update.event_id);
  column("place", update.row.hold);
  column("kind", static_cast<int>(update.kind));
  column("lane", update.lane);
  column("tries", update.attempts);
  column("deaths", update.crashes);
  column("delay", internal::bounded(update.delay).count());
  column("error", null_if_empty(update.error));
  column("step", null_if_empty(update.progress));
  return select;
}

Built Updates::finish(std::span<const StatusUpdate> updates, const Fence& fence) const {
  Built pairs = part();
  for (const StatusUpdate& update : updates) {
    if (&update != &updates.front()) pairs.sql(",");
    pairs.row(update.row.seq, update.event_id);
  }
  return {removes() ? sql::kRemove : sql::kDone, config_of(database_), seqs_of(updates), pairs,
          fence_part(fence)};
}

Built Updates::change(std::span<const StatusUpdate> updates, const Fence& fence) const {
  Built items = part();
  for (const StatusUpdate& update : updates) items.add(item(update, &update == &updates.front()));
  return {sql::kChange, config_of(database_), items, fence_part(fence)};
}

Built Updates::fence_part(const Fence& fence) const {
  const StoreConfig& config = config_of(database_);
  if (row_claims_) return {sql::kClaimed, config, owner_};
  return {sql::kOwned, config, fence.epoch, fence.name, fence.epoch};
}

// In one transaction. Whether all of them were applied.
bool Updates::write(std::span<const StatusUpdate> updates, const Fence& fence) {
  const std::vector<Built> statements =
      statements_for(updates, fence, value_bytes(database_.session()));
  const std::int64_t applied = retry_on_deadlock(database_, [&] {
    Session& session = database_.session();
    if (statements.size() == 1) return session.run(statements.front()).changed();
    return in_transaction(session, [&] {
      std::int64_t changed = 0;
      for (const Built& statement : statements) changed += session.run(statement).changed();
      return changed;
    });
  });
  return applied == static_cast<std::int64_t>(updates.size());
}

// By shard; nullopt if this instance was considered dead.
std::optional<std::vector<bool>> Updates::owned_shards(const Fence& fence) {
  std::vector<bool> owned(kShards, row_claims_);
  if (row_claims_) return owned;
  if (database_.run(sql::kLives, fence.epoch, fence.name).rows() == 0) return std::nullopt;
  const Result shards = database_.run(sql::kLease, fence.epoch);
  for (int row = 0; row < shards.rows(); ++row) {
    if (!is_shard(shards.integer(row, 0))) continue;
    owned[static_cast<std::size_t>(shards.integer(row, 0))] = true;
  }
  return owned;
}

Updates::Unchanged Updates::look_for_unchanged(std::span<const StatusUpdate> updates,
                                               const std::vector<bool>& owned) {
  Unchanged unchanged;
  in_portions(database_.session(), updates, [&](std::span<const StatusUpdate> part) {
    look_for_unchanged(part, static_cast<std::size_t>(part.data() - updates.data()), owned,
                       unchanged);
  });
  return unchanged;
}

// `from` is the place of the first of them among all updates.
void Updates::look_for_unchanged(std::span<const StatusUpdate> updates, std::size_t from,
                                 const std::vector<bool>& owned, Unchanged& unchanged) {
  const Result states = database_.run(Built(sql::kStates, config_of(database_), seqs_of(updates)));
  std::unordered_map<Seq, int> row_of;
  for (int row = 0; row < states.rows(); ++row) row_of[states.integer(row, 0)] = row;

  const auto claim_owner = row_claims_ ? std::optional<std::string_view>(owner_) : std::nullopt;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const StatusUpdate& update = updates[i];
    const auto found = row_of.find(update.row.seq);
    if (found == row_of.end()) {
      if (!is_done(update) || !removes()) unchanged.stale.push_back(from + i);
      continue;
    }
    if (states.text(found->second, 6) != update.event_id) {
      unchanged.stale.push_back(from + i);
      continue;
    }
    const int row = found->second;
    const RowState state{.status = static_cast<Status>(states.integer(row, 1)),
                         .attempts = states.integer(row, 2),
                         .hold = states.optional_integer(row, 3),
                         .locked_by = states.text(row, 4),
                         .last_error = states.text(row, 5)};
    if (already_applied(update, state, claim_owner)) continue;
    const std::int64_t shard = states.integer(row, 7);
    const bool ours = is_shard(shard) && owned[static_cast<std::size_t>(shard)] &&
                      (!row_claims_ || state.locked_by == owner_);
    const bool has_moved = state.hold && *state.hold != update.row.hold;
    if (ours && has_moved) {
      unchanged.moved.push_back(update);
      unchanged.moved.back().row.hold = *state.hold;
      unchanged.index_of.push_back(from + i);
    } else if (update.kind != StatusUpdate::Kind::crashes || !ours || !is_pending(state.status)) {
      unchanged.stale.push_back(from + i);
    }
  }
}

}  // namespace outbox::mysql
