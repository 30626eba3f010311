#include "store/common/landed_before.h"

namespace outbox {

bool landed_before(const Mark& mark, const RowState& row,
                   const std::optional<std::string_view>& claim_owner) {
  const bool pending = row.status == Status::fresh || row.status == Status::retry;
  const bool finished_by_us = !pending && (!claim_owner || row.locked_by == *claim_owner);
  const bool given_back = pending && row.locked_by.empty();
  switch (mark.kind) {
    case Mark::Kind::done:
      return finished_by_us && row.status == Status::done;
    case Mark::Kind::dead:
      return finished_by_us && row.status == Status::dead;
    case Mark::Kind::retry:
      return given_back && row.status == Status::retry && row.attempts == mark.attempts &&
             row.last_error == mark.error;
    case Mark::Kind::defer:
    case Mark::Kind::aside:
      return given_back && row.hold.value_or(0) != 0;
    case Mark::Kind::unblock:
      return finished_by_us && row.status == Status::dead && !row.hold;
    case Mark::Kind::suspect:
      return false;
  }
  return false;
}

}  // namespace outbox
