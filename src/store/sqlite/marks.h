// Writing down what became of events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "outbox/store.h"
#include "store/sqlite/database.h"

namespace outbox::sqlite {

// Marks rows, fenced by the epoch or, with row claims, by the owner in each
// row. Used by one thread at a time.
class Marks {
 public:
  // `claim_owner`: absent without row claims.
  Marks(Database& database, std::optional<std::string> claim_owner)
      : database_(database), claim_owner_(std::move(claim_owner)) {}

  // All in one transaction, in order.
  MarkResult apply(std::span<const Mark> marks, std::int64_t epoch);

 private:
  bool owns(std::int64_t epoch);
  std::int64_t finish(std::span<const Mark> marks, Time now);
  std::int64_t change(const Mark& mark, Time now);
  bool landed_before(const Mark& mark);
  bool removes() const { return database_.environment().options.on_done == OnDone::remove; }

  Database& database_;
  const std::optional<std::string> claim_owner_;
};

}  // namespace outbox::sqlite
