#include "store/postgres/marks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/bounded.h"
#include "store/common/landed_before.h"
#include "store/common/rows.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

bool is_done(const Mark& mark) { return mark.kind == Mark::Kind::done; }

// Addresses, as the arrays that a statement takes.
struct Addresses {
  void add(const Mark& mark) {
    shards.push_back(mark.row.shard);
    holds.push_back(mark.row.hold);
    seqs.push_back(mark.row.seq);
    ids.emplace_back(mark.event_id);
  }
  std::vector<std::int64_t> shards, holds, seqs;
  std::vector<OptionalText> ids;
};

Parameters done_parameters(std::span<const Mark> marks, const std::string& owner,
                           std::optional<std::int64_t> epoch) {
  Addresses rows;
  for (const Mark& mark : marks) {
    if (is_done(mark)) rows.add(mark);
  }
  return Parameters(owner, epoch, rows.shards, rows.holds, rows.seqs, rows.ids);
}

Parameters change_parameters(std::span<const Mark> marks, const std::string& owner,
                             std::optional<std::int64_t> epoch) {
  Addresses rows;
  std::vector<std::int64_t> kinds, lanes, attempts, crashes, delays;
  std::vector<OptionalText> errors, progress;
  for (const Mark& mark : marks) {
    if (is_done(mark)) continue;
    rows.add(mark);
    kinds.push_back(static_cast<std::int64_t>(mark.kind));
    lanes.push_back(mark.lane);
    attempts.push_back(mark.attempts);
    crashes.push_back(mark.crashes);
    delays.push_back(internal::bounded(mark.delay).count());
    errors.push_back(null_if_empty(mark.error));
    progress.push_back(null_if_empty(mark.progress));
  }
  return Parameters(owner, epoch, rows.shards, rows.holds, rows.seqs, rows.ids, kinds, lanes,
                    attempts, crashes, delays, errors, progress);
}

// How many of the first marks are of rows that differ: a statement sees the table as
// it was before it, so a row's second mark needs another one.
std::size_t distinct(std::span<const Mark> marks) {
  std::unordered_set<Seq> seen;
  std::size_t count = 0;
  while (count < marks.size() && seen.insert(marks[count].row.seq).second) ++count;
  return count;
}

}  // namespace

static_assert(static_cast<int>(Mark::Kind::retry) == 1 &&
                  static_cast<int>(Mark::Kind::defer) == 2 &&
                  static_cast<int>(Mark::Kind::dead) == 3 &&
                  static_cast<int>(Mark::Kind::aside) == 4 &&
                  static_cast<int>(Mark::Kind::suspect) == 5 &&
                  static_cast<int>(Mark::Kind::unblock) == 6,
              "kChange spells them out");

MarkResult Marks::apply(std::span<const Mark> marks, std::int64_t epoch) {
  if (marks.empty()) return {};
  const Fence fence = row_claims_ ? std::nullopt : Fence(epoch);
  std::optional<Indexes> unchanged = write(marks, fence);
  if (!unchanged) return {.fenced = true};
  if (!unchanged->empty()) {
    Moved moved = look_for(marks, *unchanged);
    const std::optional<Indexes> lost = write(moved.marks, fence);
    if (!lost) return {.fenced = true};
    for (std::size_t i = 0; i < moved.marks.size(); ++i) {
      if (!lost->contains(i)) unchanged->erase(moved.index_of[i]);
    }
  }
  return {.stale = {unchanged->begin(), unchanged->end()}};
}

// In one transaction. Those that changed nothing; nullopt if fenced.
std::optional<Marks::Indexes> Marks::write(std::span<const Mark> marks, Fence fence) {
  Indexes unchanged;
  if (marks.empty()) return unchanged;
  for (std::size_t i = 0; i < marks.size(); ++i) unchanged.insert(i);

  std::vector<Call> calls;
  std::vector<std::span<const Mark>> groups;  // of the calls
  for (std::span<const Mark> rest = marks; !rest.empty();) {
    const std::span<const Mark> group = rest.first(distinct(rest));
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
    std::unordered_set<Seq> changed;
    for (int row = 0; row < answers[call].rows(); ++row) {
      changed.insert(answers[call].integer(row, 0));
    }
    if (!changed.contains(0)) return std::nullopt;
    for (const Mark& mark : groups[call]) {
      if (is_done(mark) == of_done && changed.contains(mark.row.seq)) {
        unchanged.erase(static_cast<std::size_t>(&mark - marks.data()));
      }
    }
  }
  return unchanged;
}

// Takes out those whose rows are as the marks want them already: repeats of marks
// whose answer was lost. Of the others, those whose rows have moved since they were
// read, with their new addresses.
Marks::Moved Marks::look_for(std::span<const Mark> marks, Indexes& unchanged) {
  std::vector<OptionalText> ids;
  for (const std::size_t index : unchanged) ids.emplace_back(marks[index].event_id);
  const Result states = database_.run(sql::kStates, ids);
  std::map<std::string_view, int> row_of;
  for (int row = 0; row < states.rows(); ++row) row_of[states.text(row, 0)] = row;
  Moved moved;
  std::erase_if(unchanged, [&](std::size_t index) {
    const Mark& mark = marks[index];
    const auto found = row_of.find(mark.event_id);
    if (found == row_of.end()) return is_done(mark) && removes();
    const int row = found->second;
    const auto hold = states.optional_integer(row, 3);
    const RowState state{.status = static_cast<Status>(states.integer(row, 1)),
                         .attempts = states.integer(row, 2),
                         .hold = hold,
                         .locked_by = states.text(row, 4),
                         .last_error = states.text(row, 5)};
    if (landed_before(mark, state, row_claims_ ? OptionalText(owner_) : std::nullopt)) return true;
    if (hold && *hold != mark.row.hold) {
      moved.marks.push_back(mark);
      moved.marks.back().row.hold = *hold;
      moved.index_of.push_back(index);
    }
    return false;
  });
  return moved;
}

}  // namespace outbox::postgres
