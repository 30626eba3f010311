// Writing down what became of events.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/postgres/session.h"
#include "outbox/spi/store.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// Updates rows (with progress by position, delivery rows), fenced by the epoch or, with row claims,
// by the owner in each row.
// Used by one thread at a time.
class Updates final : public Instance::Updates {
 public:
  Updates(Database& database, std::string owner, bool row_claims)
      : database_(database), owner_(std::move(owner)), row_claims_(row_claims) {}

  // All in one transaction, in order; but rows that were moved since they were read
  // (which nobody does as a rule) follow in another one. `before`, if there is one, is run first
  // in it: what inserts the rows.
  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates, const Call* before);
  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override {
    return apply(epoch, updates, nullptr);
  }

 private:
  using Fence = std::optional<std::int64_t>;  // absent with row claims
  using Indexes = std::set<std::size_t>;
  struct Moved {
    std::vector<StatusUpdate> updates{};
    std::vector<std::size_t> index_of{};
  };

  bool by_position() const { return config_of(database_).naming.progress == Progress::position; }
  bool removes() const {
    return by_position() || config_of(database_).options.on_done == OnDone::remove;
  }
  std::optional<Indexes> write(std::span<const StatusUpdate> updates, Fence fence,
                               const Call* before);
  Moved look_for(std::span<const StatusUpdate> updates, Indexes& unchanged);

  Database& database_;
  const std::string owner_;
  const bool row_claims_;
};

}  // namespace outbox::postgres
