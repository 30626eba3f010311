// Writing down what became of events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "outbox/spi/store.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// Updates rows, fenced by the epoch or, with row claims, by the owner in each
// row. Used by one thread at a time.
class Updates {
 public:
  // `claim_owner`: absent without row claims.
  Updates(Database& database, std::optional<std::string> claim_owner)
      : database_(database), claim_owner_(std::move(claim_owner)) {}

  // All in one transaction, in order.
  UpdateResult apply(std::span<const StatusUpdate> updates, std::int64_t epoch);

 private:
  bool owns(std::int64_t epoch);
  std::int64_t finish(std::span<const StatusUpdate> updates, Time now);
  std::int64_t change(const StatusUpdate& update, Time now);
  bool already_applied(const StatusUpdate& update);
  bool removes() const { return config_of(database_).options.on_done == OnDone::remove; }

  Database& database_;
  const std::optional<std::string> claim_owner_;
};

}  // namespace outbox::sqlite
