#include "store/common/admin.h"

#include <algorithm>

namespace outbox {

static_assert(kGlobalAggregate == "__GLOBAL__", "the statements of the stores spell it out");

StatusBits bits(const std::vector<Status>& statuses) {
  StatusBits all = 0;
  for (const Status status : statuses) all |= bit(status);
  return all;
}

StatusBits replayable(const EventFilter& filter) {
  return filter.status.empty() ? bit(Status::dead) : bits(filter.status) & kFinished;
}

std::optional<std::int64_t> status_of(Purgeable what) {
  switch (what) {
    case Purgeable::done:
      return static_cast<std::int64_t>(Status::done);
    case Purgeable::dead:
      return static_cast<std::int64_t>(Status::dead);
    case Purgeable::any_age:
      break;
  }
  return std::nullopt;
}

void HeldAggregates::add(HeldAggregate row) {
  const auto known = std::find_if(all_.begin() + static_cast<std::ptrdiff_t>(lane_), all_.end(),
                                  [&](const HeldAggregate& aggregate) {
                                    return aggregate.aggregate_type == row.aggregate_type &&
                                           aggregate.aggregate_id == row.aggregate_id;
                                  });
  if (known != all_.end()) {
    ++known->waiting;
  } else if (!full()) {
    all_.push_back(std::move(row));
  }
}

}  // namespace outbox
