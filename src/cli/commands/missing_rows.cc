#include "cli/commands/missing_rows.h"

#include <algorithm>
#include <iterator>

namespace outbox::cli {

void MissingRows::add(Seq first, Seq last, Instant now) {
  if (first <= last) ranges_.emplace(first, Range{.last = last, .added = now});
}

void MissingRows::forget(Instant added) {
  std::erase_if(ranges_, [&](const auto& range) { return range.second.added <= added; });
}

std::optional<Seq> MissingRows::next(Seq seq) const {
  auto range = ranges_.upper_bound(seq);
  if (range != ranges_.begin() && std::prev(range)->second.last >= seq) return seq;
  if (range == ranges_.end()) return std::nullopt;
  return range->first;
}

bool MissingRows::take(Seq seq) {
  auto range = ranges_.upper_bound(seq);
  if (range == ranges_.begin()) return false;
  --range;
  const auto [last, added] = range->second;
  if (seq > last) return false;
  if (seq == range->first) {
    ranges_.erase(range);
  } else {
    range->second.last = seq - 1;
  }
  add(seq + 1, last, added);
  return true;
}

}  // namespace outbox::cli
