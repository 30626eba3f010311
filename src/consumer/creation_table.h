// The table of requests that create something: one row for each tenant and key, with the ids for
// others to see.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "outbox/consumer/idempotent_create.h"
#include "outbox/spi/store.h"

namespace outbox::internal {

// A request whose parts have been checked.
struct CreationKey {
  std::string tenant_id{};
  std::string key{};
  std::string hash{};
};

enum class CreationState : std::uint8_t { in_progress = 0, succeeded = 1, failed = 2 };

struct CreationRow {
  std::string hash{};
  CreationState state = CreationState::in_progress;
  std::string owner{};
  std::chrono::microseconds left{0};  // of the lease, by the database's clock
  NewIds ids{};
  std::string result_ref{};

  // Nobody works on it, and there is no result: the next call may take it over.
  bool is_free() const {
    return state == CreationState::failed ||
           (state == CreationState::in_progress && left <= std::chrono::microseconds::zero());
  }
};

// A call's right to create: `owner` is what its statements compare.
struct CreationClaim {
  std::string owner{};
  std::string former{};  // whom it was taken over from; empty: the row is this call's own
  NewIds ids{};
};

// Its statements. Each is one, so it holds by itself, whether or not it is run in a
// transaction. Thread-safe.
class CreationTable {
 public:
  // Throws MisuseError if the store speaks no SQL.
  explicit CreationTable(const Store& store);

  // False if there is a row already. Waits for a transaction that is about to make one.
  bool insert(Connection& on, const CreationKey& key, const CreationClaim& claim,
              std::chrono::milliseconds lease) const;

  std::optional<CreationRow> read(Connection& on, const CreationKey& key) const;

  // The same, of a row that insert() has found in a transaction: also if that cannot see it
  // otherwise.
  std::optional<CreationRow> read_newest(Connection& on, const CreationKey& key) const;

  // False if the row is no longer its former owner's, or no longer free.
  bool take_over(Connection& on, const CreationKey& key, const CreationClaim& claim,
                 std::chrono::milliseconds lease) const;

  // All false if the claim was lost. The lease is renewed; the work is done; it has failed.
  bool renew(Connection& on, const CreationKey& key, const CreationClaim& claim,
             std::chrono::milliseconds lease) const;
  bool succeed(Connection& on, const CreationKey& key, const CreationClaim& claim,
               const std::string& result_ref) const;
  bool fail(Connection& on, const CreationKey& key, const CreationClaim& claim,
            const std::string& error) const;

 private:
  std::optional<CreationRow> read_by(Connection& on, const std::string& sql,
                                     const CreationKey& key) const;

  // Constant after construction.
  const std::string insert_;
  const std::string read_;
  const std::string read_newest_;
  const std::string take_over_;
  const std::string renew_;
  const std::string succeed_;
  const std::string fail_;
};

// "<prefix>_" (nothing, if the prefix is empty) and 20 characters of Crockford's base 32:
// 100 bits of the operating system's random source. It tells neither when it was made
// nor how many there are, and cannot be guessed. Thread-safe; right after fork(), too.
std::string new_public_id(std::string_view prefix);

// Throws MisuseError unless it is at most 32 letters, digits, "-" and "_".
void check_public_id_prefix(std::string_view field, std::string_view prefix);

}  // namespace outbox::internal
