#include "store/common/already_applied.h"

namespace outbox {

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
