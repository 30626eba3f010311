#include "store/postgres/updates.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bounded.h"
#include "model/event_row.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

// Addresses, as the arrays that a statement takes.
struct Addresses {
  void add(const StatusUpdate& update) {
    shards.push_back(update.row.shard);
    holds.push_back(update.row.hold);
    seqs.push_back(update.row.seq);
    ids.emplace_back(update.event_id);
  }
  std::vector<std::int64_t> shards, holds, seqs;
  std::vector<OptionalText> ids;
};

Parameters done_parameters(std::span<const StatusUpdate> updates, const std::string& owner,
                           std::optional<std::int64_t> epoch) {
  Addresses rows;
  for (const StatusUpdate& update : updates) {
    if (is_done(update)) rows.add(update);
  }
  return Parameters(owner, epoch, rows.shards, rows.holds, rows.seqs, rows.ids);
}

Parameters change_parameters(std::span<const StatusUpdate> updates, const std::string& owner,
                             std::optional<std::int64_t> epoch) {
  Addresses rows;
  std::vector<std::int64_t> kinds, lanes, attempts, crashes, delays;
  std::vector<OptionalText> errors, progress;
  for (const StatusUpdate& update : updates) {
    if (is_done(update)) continue;
    rows.add(update);
    kinds.push_back(static_cast<std::int64_t>(update.kind));
    lanes.push_back(update.lane);
    attempts.push_back(update.attempts);
    crashes.push_back(update.crashes);
    delays.push_back(internal::bounded(update.delay).count());
    errors.push_back(null_if_empty(update.error));
    progress.push_back(null_if_empty(update.progress));
  }
  return Parameters(owner, epoch, rows.shards, rows.holds, rows.seqs, rows.ids, kinds, lanes,
                    attempts, crashes, delays, errors, progress);
}

}  // namespace

UpdateResult Updates::apply(std::int64_t epoch, std::span<const StatusUpdate> updates,
                            const Call* before) {
  if (updates.empty()) return {};
  const Fence fence = row_claims_ ? std::nullopt : Fence(epoch);
  std::optional<Indexes> unchanged = write(updates, fence, before);
  if (!unchanged) return {.fenced = true};
  if (!unchanged->empty()) {
    Moved moved = look_for(updates, *unchanged);
    const std::optional<Indexes> lost = write(moved.updates, fence, nullptr);
    if (!lost) return {.fenced = true};
    for (std::size_t i = 0; i < moved.updates.size(); ++i) {
      if (!lost->contains(i)) unchanged->erase(moved.index_of[i]);
    }
  }
  return {.stale = {unchanged->begin(), unchanged->end()}};
}

// In one transaction. Those that changed nothing; nullopt if fenced.
std::optional<Updates::Indexes> Updates::write(std::span<const StatusUpdate> updates, Fence fence,
                                               const Call* before) {
  Indexes unchanged;
  if (updates.empty()) return unchanged;
  for (std::size_t i = 0; i < updates.size(); ++i) unchanged.insert(i);

  std::vector<Call> calls;
  std::vector<std::span<const StatusUpdate>> groups;  // of the calls
  if (before != nullptr) {
    calls.push_back(*before);
    groups.emplace_back();
  }
  for (std::span<const StatusUpdate> rest = updates; !rest.empty();) {
    const std::span<const StatusUpdate> group = first_of_each_row(rest);
    rest = rest.subspan(group.size());
    const auto done = std::count_if(group.begin(), group.end(), is_done);
    if (done > 0) {
      calls.push_back(
          {removes() ? sql::kRemove : sql::kDone, done_parameters(group, owner_, fence)});
      groups.push_back(group);
    }
    if (static_cast<std::size_t>(done) < group.size()) {
      calls.push_back({sql::kChange, change_parameters(group, owner_, fence)});
      groups.push_back(group);
    }
  }
  const std::vector<Result> answers = database_.session().run_at_once(calls);
  for (std::size_t call = 0; call < answers.size(); ++call) {
    const bool of_done = &calls[call].sql != &sql::kChange;
    if (groups[call].empty()) continue;
    std::unordered_set<Seq> changed;
    for (int row = 0; row < answers[call].rows(); ++row) {
      changed.insert(answers[call].integer(row, 0));
    }
    if (!changed.contains(0)) return std::nullopt;
    for (const StatusUpdate& update : groups[call]) {
      if (is_done(update) == of_done && changed.contains(update.row.seq)) {
        unchanged.erase(static_cast<std::size_t>(&update - updates.data()));
      }
    }
  }
  return unchanged;
}

// Takes out those whose rows are as the updates want them already: repeats of updates
// whose answer was lost. Of the others, those whose rows have moved since they were
// read, with their new addresses.
Updates::Moved Updates::look_for(std::span<const StatusUpdate> updates, Indexes& unchanged) {
  std::vector<OptionalText> ids;
  for (const std::size_t index : unchanged) ids.emplace_back(updates[index].event_id);
  const Result states = database_.run(sql::kStates, ids);
  std::map<std::string_view, int> row_of;
  for (int row = 0; row < states.rows(); ++row) row_of[states.text(row, 0)] = row;
  Moved moved;
  std::erase_if(unchanged, [&](std::size_t index) {
    const StatusUpdate& update = updates[index];
    const auto found = row_of.find(update.event_id);
    // With progress by position it may as well never have had a row.
    if (found == row_of.end()) return is_done(update) && removes() && !by_position();
    const int row = found->second;
    const auto hold = states.optional_integer(row, 3);
    const RowState state{.status = static_cast<Status>(states.integer(row, 1)),
                         .attempts = states.integer(row, 2),
                         .hold = hold,
                         .locked_by = states.text(row, 4),
                         .last_error = states.text(row, 5)};
    if (already_applied(update, state, row_claims_ ? OptionalText(owner_) : std::nullopt))
      return true;
    if (hold && *hold != update.row.hold) {
      moved.updates.push_back(update);
      moved.updates.back().row.hold = *hold;
      moved.index_of.push_back(index);
    }
    return false;
  });
  return moved;
}

}  // namespace outbox::postgres
