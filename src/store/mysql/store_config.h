// What everything that belongs to one store shares.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/sql_text.h"
#include "client/mysql/database.h"
#include "outbox/mysql.h"
#include "store/common/connection.h"
#include "store/common/store_config.h"
#include "store/mysql/own_numbers.h"

namespace outbox::mysql {

using TableName = outbox::TableName<'`', 64>;

// In backquotes, those inside doubled: right whatever the session's SQL mode is.
inline std::string quoted_name(std::string_view name) { return outbox::quoted_name(name, '`'); }

// Fills in the names that SQL text of the library leaves open: `{table}` is the
// table's, `{x}` that of `<table>_x`, and what sql.h has names for: `{columns}`,
// `{light}`, `{record}`, `{now}`, `{by_number}`, `{dead}`, `{unfinished}` and `{anywhere}`.
std::string expand(std::string_view text, const TableName& name);

// The options, resolved, and the place of the database. Connections, instances
// and watches keep it alive, so that they may outlive the store.
//
// Constant once the store is open, but for what is mutable; thread-safe.
struct StoreConfig final : DatabaseContext {
  using DatabaseContext::DatabaseContext;

  // Before anything is asked of the server. Throws MisuseError if it cannot be one.
  static std::shared_ptr<StoreConfig> of(const std::string& url, Options options);

  TableName table{};
  Options options{};  // complete: codec, log and clock are set

  // When the tables were made, which tells them from those of other databases: the
  // same on every node of a cluster and every replica.
  std::string born{};
  mutable KnownPlaces places{};  // that lead to them

  mutable OwnNumbers own_numbers{};

  std::string expand(std::string_view text) const override { return mysql::expand(text, table); }
  bool is_about_own_tables(std::string_view message) const override {
    return message.find(table.table) != std::string_view::npos;
  }
  bool may_prepare() const override { return options.prepare; }
};

using StoreConfigPtr = std::shared_ptr<const StoreConfig>;

// The context of the store's sessions and connections is its configuration.
inline const StoreConfig& config_of(const Session& session) {
  return static_cast<const StoreConfig&>(session.context());
}
inline const StoreConfig& config_of(const Database& database) {
  return static_cast<const StoreConfig&>(database.context());
}

}  // namespace outbox::mysql
