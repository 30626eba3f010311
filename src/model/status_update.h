// Updates of events' rows: which may go together, and which were applied already.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "outbox/spi/store.h"

namespace outbox {

// The statements of the servers spell them out.
static_assert(static_cast<int>(StatusUpdate::Kind::retry) == 1 &&
              static_cast<int>(StatusUpdate::Kind::defer) == 2 &&
              static_cast<int>(StatusUpdate::Kind::dead) == 3 &&
              static_cast<int>(StatusUpdate::Kind::hold) == 4 &&
              static_cast<int>(StatusUpdate::Kind::crashes) == 5 &&
              static_cast<int>(StatusUpdate::Kind::unblock) == 6);

inline bool is_done(const StatusUpdate& update) { return update.kind == StatusUpdate::Kind::done; }

// The first updates, as far as they are of rows that differ: a statement sees the table as
// it was before it, so a row's second update needs another one.
std::span<const StatusUpdate> first_of_each_row(std::span<const StatusUpdate> updates);

// What a row that an update did not change looks like, if its answer was lost.
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
