// Writing down what became of events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "outbox/spi/store.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

// Updates rows, fenced by the epoch or, with row claims, by the owner in each row.
// Used by one thread at a time.
//
// Each statement locks the instance's row before it changes any other, so that nobody
// can take over until it is committed; a take-over that was quicker leaves nothing to
// lock, and nothing is changed. As a rule that is one statement, which the server
// commits by itself; no statement is longer than the server admits.
class Updates final : public Instance::Updates {
 public:
  Updates(Database& database, std::string owner, bool row_claims)
      : database_(database), owner_(std::move(owner)), row_claims_(row_claims) {}

  // All in one transaction, in order; but rows that were moved since they were read
  // follow in another one.
  UpdateResult apply(std::int64_t epoch, std::span<const StatusUpdate> updates) override;

 private:
  // Where not all updates were applied, those whose rows are not as the updates want them.
  struct Unchanged {
    std::vector<std::size_t> stale{};

    // Rows that were moved since they were read (which nobody does as a rule), with
    // their new addresses.
    std::vector<StatusUpdate> moved{};
    std::vector<std::size_t> index_of{};
  };

  // What an update must find unchanged: the registration, by its name as well. Empty with row
  // claims.
  struct Fence {
    std::int64_t epoch = 0;
    std::string name{};
  };

  bool removes() const { return config_of(database_).options.on_done == OnDone::remove; }
  std::vector<StatusUpdate> with_errors_that_fit(std::span<const StatusUpdate> updates);
  std::vector<Built> statements_for(std::span<const StatusUpdate> updates, const Fence& fence,
                                    std::size_t most) const;
  Built item(const StatusUpdate& update, bool first = false) const;
  Built finish(std::span<const StatusUpdate> updates, const Fence& fence) const;
  Built change(std::span<const StatusUpdate> updates, const Fence& fence) const;
  Built fence_part(const Fence& fence) const;
  Built part() const { return {"update events", config_of(database_)}; }
  std::optional<Fence> fence_for(std::int64_t epoch) const;
  bool write(std::span<const StatusUpdate> updates, const Fence& fence);
  std::optional<std::vector<bool>> owned_shards(const Fence& fence);
  Unchanged look_for_unchanged(std::span<const StatusUpdate> updates,
                               const std::vector<bool>& owned);
  void look_for_unchanged(std::span<const StatusUpdate> updates, std::size_t from,
                          const std::vector<bool>& owned, Unchanged& unchanged);

  Database& database_;
  const std::string owner_;
  const bool row_claims_;
};

}  // namespace outbox::mysql
