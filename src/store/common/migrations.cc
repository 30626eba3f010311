#include "store/common/migrations.h"

#include <algorithm>
#include <utility>

#include "outbox/error.h"

namespace outbox {
namespace {

std::span<const Migration> after(std::span<const Migration> all, int version) {
  const auto first = std::find_if(all.begin(), all.end(), [&](const Migration& migration) {
    return migration.version > version;
  });
  return {first, all.end()};
}

}  // namespace

SchemaStatus Migrations::status(std::vector<SchemaStep> applied) const {
  SchemaStatus status{.present = applied.empty() ? 0 : applied.back().version,
                      .latest = latest(),
                      .steps = std::move(applied)};
  for (const Migration& migration : after(all_, status.present)) {
    status.steps.push_back({.version = migration.version, .name = migration.name});
  }
  return status;
}

std::span<const Migration> Migrations::missing(int version, bool migrate,
                                               const std::string& description) const {
  check_not_newer(version, description);
  if (version != latest() && !migrate) {
    const std::string store(store_);
    throw PermanentError("the schema of " + description + " has version " +
                         std::to_string(version) + ", and this library needs version " +
                         std::to_string(latest()) + ": set " + store +
                         "::Options::migrate, or apply " + store + "::schema_sql()");
  }
  return after(all_, version);
}

void Migrations::check_not_newer(int version, const std::string& description) const {
  if (version <= latest()) return;
  throw PermanentError("the schema of " + description + " has version " + std::to_string(version) +
                       ", and this library knows versions up to " + std::to_string(latest()) +
                       ": update the programs that use the older library");
}

}  // namespace outbox
