#include "consumer/creation_table.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <variant>
#include <vector>

#include "base/quote.h"
#include "base/utf8.h"
#include "consumer/dialect.h"
#include "outbox/consumer/idempotent_create.h"
#include "outbox/error.h"

namespace outbox::internal {
namespace {

constexpr std::string_view kInsert =
    "{insert} {creation} (tenant_id, request_key, request_hash, state, owner, lease_until,"
    " attempts, internal_id, public_id, created_at, changed_at)"
    " VALUES (?, ?, ?, 0, ?, {after ?}, 1, ?, ?, {now}, {now}) {unless there}";

constexpr std::string_view kTakeOver =
    "UPDATE {creation} SET state = 0, owner = ?, lease_until = {after ?},"
    " attempts = attempts + 1, changed_at = {now}"
    " WHERE tenant_id = ? AND request_key = ? AND owner = ?"
    " AND (state = 2 OR (state = 0 AND lease_until <= {now}))";

constexpr std::string_view kRenew =
    "UPDATE {creation} SET lease_until = {after ?}"
    " WHERE tenant_id = ? AND request_key = ? AND owner = ? AND state = 0";

constexpr std::string_view kSucceed =
    "UPDATE {creation} SET state = 1, result_ref = ?, changed_at = {now}"
    " WHERE tenant_id = ? AND request_key = ? AND owner = ? AND state = 0";

constexpr std::string_view kFail =
    "UPDATE {creation} SET state = 2, last_error = ?, changed_at = {now}"
    " WHERE tenant_id = ? AND request_key = ? AND owner = ? AND state = 0";

constexpr const char* kRead =
    "SELECT request_hash, state, owner, {left}, internal_id, public_id, result_ref"
    " FROM {creation} WHERE tenant_id = ? AND request_key = ?";

// On MySQL a transaction may have a snapshot that is older than the row; a read with a lock
// goes past it, and INSERT IGNORE has taken that very lock already. PostgreSQL refuses the
// INSERT then, and SQLite's transactions see everything.
std::string read_newest_sql(Dialect dialect) {
  return std::string(kRead) + (dialect == Dialect::mysql ? " LOCK IN SHARE MODE" : "");
}

std::int64_t in_microseconds(std::chrono::milliseconds time) {
  return std::chrono::microseconds(time).count();
}

std::int64_t execute(Connection& on, const std::string& sql, const std::vector<Parameter>& values) {
  return on.execute(sql, values);
}

std::string text(const ResultRow& row, std::size_t column) {
  return row.get<std::optional<std::string>>(column).value_or("");
}

using RandomBytes = std::array<unsigned char, 20>;  // five bits of each are used

RandomBytes random_bytes() {
  RandomBytes bytes{};
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (got > 0) {
      have += static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "getrandom");
    }
  }
  return bytes;
}

bool may_be_in_prefix(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
         c == '_';
}

}  // namespace

CreationTable::CreationTable(const Store& store)
    : insert_(render_sql(kInsert, store, "IdempotentCreate")),
      read_(render_sql(kRead, store, "IdempotentCreate")),
      read_newest_(
          render_sql(read_newest_sql(store.capabilities().dialect), store, "IdempotentCreate")),
      take_over_(render_sql(kTakeOver, store, "IdempotentCreate")),
      renew_(render_sql(kRenew, store, "IdempotentCreate")),
      succeed_(render_sql(kSucceed, store, "IdempotentCreate")),
      fail_(render_sql(kFail, store, "IdempotentCreate")) {}

bool CreationTable::insert(Connection& on, const CreationKey& key, const CreationClaim& claim,
                           std::chrono::milliseconds lease) const {
  return execute(on, insert_,
                 {key.tenant_id, key.key, key.hash, claim.owner, in_microseconds(lease),
                  claim.ids.internal_id, claim.ids.public_id}) > 0;
}

std::optional<CreationRow> CreationTable::read(Connection& on, const CreationKey& key) const {
  return read_by(on, read_, key);
}

std::optional<CreationRow> CreationTable::read_newest(Connection& on,
                                                      const CreationKey& key) const {
  return read_by(on, read_newest_, key);
}

std::optional<CreationRow> CreationTable::read_by(Connection& on, const std::string& sql,
                                                  const CreationKey& key) const {
  const std::vector<Parameter> values{key.tenant_id, key.key};
  const std::vector<ResultRow> rows = on.query(sql, values);
  if (rows.empty()) return std::nullopt;
  const ResultRow& row = rows.front();
  return CreationRow{.hash = text(row, 0),
                     .state = static_cast<CreationState>(row.get<std::int64_t>(1)),
                     .owner = text(row, 2),
                     .left = std::chrono::microseconds{row.get<std::int64_t>(3)},
                     .ids = {.internal_id = text(row, 4), .public_id = text(row, 5)},
                     .result_ref = text(row, 6)};
}

bool CreationTable::take_over(Connection& on, const CreationKey& key, const CreationClaim& claim,
                              std::chrono::milliseconds lease) const {
  return execute(on, take_over_,
                 {claim.owner, in_microseconds(lease), key.tenant_id, key.key, claim.former}) > 0;
}

bool CreationTable::renew(Connection& on, const CreationKey& key, const CreationClaim& claim,
                          std::chrono::milliseconds lease) const {
  return execute(on, renew_, {in_microseconds(lease), key.tenant_id, key.key, claim.owner}) > 0;
}

bool CreationTable::succeed(Connection& on, const CreationKey& key, const CreationClaim& claim,
                            const std::string& result_ref) const {
  return execute(on, succeed_, {result_ref, key.tenant_id, key.key, claim.owner}) > 0;
}

bool CreationTable::fail(Connection& on, const CreationKey& key, const CreationClaim& claim,
                         const std::string& error) const {
  return execute(on, fail_, {error, key.tenant_id, key.key, claim.owner}) > 0;
}

std::string new_public_id(std::string_view prefix) {
  constexpr char kDigits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  std::string id(prefix);
  if (!id.empty()) id += '_';
  for (const unsigned char byte : random_bytes()) id += kDigits[byte & 31];
  return id;
}

void check_public_id_prefix(std::string_view field, std::string_view prefix) {
  check_text(field, prefix, kMaxPublicIdPrefixLength);
  if (std::all_of(prefix.begin(), prefix.end(), may_be_in_prefix)) return;
  throw MisuseError(std::string(field) +
                    " may have letters, digits, \"-\" and \"_\" only: " + quote(prefix));
}

}  // namespace outbox::internal
