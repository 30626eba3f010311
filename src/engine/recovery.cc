#include "engine/recovery.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace outbox::internal {
namespace {

// First many, then few, then each alone.
constexpr int kDeathsInCompany = 2;

}  // namespace

std::size_t Recovery::group_size(int crashes) {
  if (crashes == 0) return 64;
  if (crashes < kDeathsInCompany) return 8;
  return 1;
}

Row Recovery::checked_for_poison(Row row) const {
  const int limit = kDeathsInCompany + max_solo_crashes_;
  if (row.crashes >= limit && row.defect.empty()) {
    row.defect = "the process died " + std::to_string(row.crashes) +
                 " times while it was being delivered, the last " +
                 std::to_string(max_solo_crashes_) + " times alone";
  }
  return row;
}

void Recovery::add(std::size_t candidates) {
  left_ += candidates;
  if (candidates == 0) return;
  under_way_ = true;
  intake_.isolate(true);
}

void Recovery::add_claimed(std::vector<Row> candidates) {
  add(candidates.size());
  claimed_.insert(claimed_.end(), std::move_iterator(candidates.begin()),
                  std::move_iterator(candidates.end()));
}

void Recovery::end() {
  left_ = 0;
  claimed_.clear();
  probed_.clear();
  under_way_ = false;
  intake_.isolate(false);
}

bool Recovery::try_group(std::vector<Row> rows) {
  for (auto row = rows.begin(); row != rows.end();) {
    const std::size_t size = std::min(group_size(row->crashes), left_);
    const int crashes = row->crashes;
    std::vector<Row> group;
    while (row != rows.end() && group.size() < size &&
           group_size(row->crashes) == group_size(crashes)) {
      group.push_back(checked_for_poison(std::move(*row++)));
    }
    const std::size_t tried = group.size();
    const std::size_t known = intake_.deliver_isolated(std::move(group));
    left_ -= tried - known;
    if (known < tried) return true;
  }
  return false;
}

bool Recovery::probe(LaneKey lane) {
  const bool first_time = probed_.insert(lane).second;
  if (first_time) --left_;
  return first_time;
}

Recovery::Group Recovery::take_claimed() {
  std::vector<Row> rows = std::exchange(claimed_, {});
  const std::size_t size = group_size(rows.front().crashes);
  Group group;
  for (Row& row : rows) {
    const bool joins =
        group.rows.empty() || (group.rows.size() < size && group_size(row.crashes) == size);
    if (joins) {
      group.rows.push_back(checked_for_poison(std::move(row)));
    } else {
      group.others.push_back(row.ref);
    }
  }
  return group;
}

}  // namespace outbox::internal
