// What everything that belongs to one store shares.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "client/sqlite/database.h"
#include "outbox/clock.h"
#include "outbox/sqlite.h"

namespace outbox::sqlite {

// For messages.
std::string describe_database(const std::string& file, const std::string& table);

// Fills in the names that SQL text of the library leaves open: `{table}` is the
// table's, `{x}` that of `<table>_x`, both quoted; `{columns}` lists what
// decode_row() reads, `{record}` what AdminStatements::record() reads, and `{filter}` is the
// condition that an EventFilter binds to, `{is_broken}` that of rows which contradict
// themselves.
std::string expand(std::string_view text, const std::string& table);

// The options, resolved, and the place of the database. Connections, instances and watches keep
// it alive, so that they may outlive the store.
//
// Constant once the store is open; thread-safe.
struct StoreConfig final : DatabaseContext {
  // Before the database is opened. Throws MisuseError if it cannot be one.
  static std::shared_ptr<StoreConfig> of(const std::string& path, Options options);

  Options options{};  // complete: codec, log and clock are set

  Time now() const { return options.clock->now(); }

  std::string expand(std::string_view text) const override {
    return sqlite::expand(text, options.table);
  }
  bool is_about_own_tables(std::string_view message) const override {
    return message.find(options.table) != std::string_view::npos;
  }
};

using StoreConfigPtr = std::shared_ptr<const StoreConfig>;

// The context of the store's sessions and connections is its configuration.
inline const StoreConfig& config_of(const Session& session) {
  return static_cast<const StoreConfig&>(*session.context());
}
inline const StoreConfig& config_of(const Database& database) {
  return static_cast<const StoreConfig&>(database.context());
}

}  // namespace outbox::sqlite
