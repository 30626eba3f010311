// Updates that are repeated because their answer was lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "outbox/spi/store.h"

namespace outbox {

// What a row that an update did not change looks like.
struct RowState {
  Status status = Status::pending;
  std::int64_t attempts = 0;
  std::optional<std::int64_t> hold{};
  std::string_view locked_by{};
  std::string_view last_error{};
};

// Whether the row is as the update wants it already. `claim_owner`: whose update it is, with
// row claims; absent without.
bool already_applied(const StatusUpdate& update, const RowState& row,
                     const std::optional<std::string_view>& claim_owner);

}  // namespace outbox
