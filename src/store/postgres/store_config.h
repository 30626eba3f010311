// What everything that belongs to one store shares.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/postgres/database.h"
#include "outbox/postgres.h"
#include "store/common/connection.h"
#include "store/common/store_config.h"

namespace outbox::postgres {

using TableName = outbox::TableName<'"', 63>;

// How a table keeps progress, and whose progress is meant. With Progress::row there is one
// subscription, and nothing is named after it.
struct Naming {
  Progress progress = Progress::row;
  std::string subscription{};
};

// Fills in the names that SQL text of the library leaves open: `{table}` is the
// table's, `{x}` that of `<table>_x`, `{index x}` the same without its schema;
// `{columns}` lists what decode_row() reads, `{record}` what AdminStatements::record() reads,
// and `{filter}` is the condition that an EventFilter binds to.
//
// `{waiting}`, `{unfinished}` and `{state}` are where events stand that wait or are dead, those
// that are not finished, and all: with Progress::row the table itself. `{own}` is the
// subscription as a literal; `{and own}` and `{where own}` are the condition on the rows of
// side tables that belong to it, `{own column}` and `{own value}` what an INSERT says of it.
std::string expand(std::string_view text, const TableName& name, const Naming& naming = {});

// Which database of which server: the same for a server and its standbys.
struct DatabaseId {
  std::int64_t server = 0;
  std::int64_t database = 0;
  bool operator==(const DatabaseId&) const = default;
};

// The options, resolved, and the place of the database. Connections, instances
// and watches keep it alive, so that they may outlive the store.
//
// Constant once the store is open, but for `places`; thread-safe. A copy is another subscription's.
struct StoreConfig final : DatabaseContext {
  using DatabaseContext::DatabaseContext;

  // Before anything is asked of the server. Throws MisuseError if it cannot be one.
  static std::shared_ptr<StoreConfig> of(const std::string& url, Options options);

  TableName table{};
  Options options{};  // complete: codec, log and clock are set
  Naming naming{};
  std::string channel{};  // on which commits are told of

  std::optional<DatabaseId> id{};  // absent if the server does not say
  const std::shared_ptr<KnownPlaces> places = std::make_shared<KnownPlaces>();  // that lead to it

  std::string expand(std::string_view text) const override {
    return postgres::expand(text, table, naming);
  }
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

}  // namespace outbox::postgres
