#include "model/status_update.h"

#include <cstddef>
#include <unordered_set>

namespace outbox {

std::span<const StatusUpdate> first_of_each_row(std::span<const StatusUpdate> updates) {
  std::unordered_set<Seq> seen;
  std::size_t count = 0;
  while (count < updates.size() && seen.insert(updates[count].row.seq).second) ++count;
  return updates.first(count);
}

bool already_applied(const StatusUpdate& update, const RowState& row,
                     const std::optional<std::string_view>& claim_owner) {
  const bool pending = row.status == Status::pending || row.status == Status::retry;
  const bool finished_by_us = !pending && (!claim_owner || row.locked_by == *claim_owner);
  const bool given_back = pending && row.locked_by.empty();
  switch (update.kind) {
    case StatusUpdate::Kind::done:
      return finished_by_us && row.status == Status::done;
    case StatusUpdate::Kind::dead:
      return finished_by_us && row.status == Status::dead;
    case StatusUpdate::Kind::retry:
      return given_back && row.status == Status::retry && row.attempts == update.attempts &&
             row.last_error == update.error;
    case StatusUpdate::Kind::defer:
    case StatusUpdate::Kind::hold:
      return given_back && row.hold.value_or(0) != 0;
    case StatusUpdate::Kind::unblock:
      return finished_by_us && row.status == Status::dead && !row.hold;
    case StatusUpdate::Kind::crashes:
      return false;
  }
  return false;
}

}  // namespace outbox
