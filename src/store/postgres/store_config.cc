#include "store/postgres/store_config.h"

#include <optional>
#include <utility>

#include "base/sql_text.h"
#include "store/common/store_config.h"
#include "store/postgres/admin_sql.h"
#include "store/postgres/position_admin_sql.h"
#include "store/postgres/position_sql.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {

namespace {

std::string literal(std::string_view text) { return quoted_name(text, '\''); }

// What depends on how the table keeps progress; nullopt: nothing.
std::optional<std::string> named_by_progress(std::string_view what, const TableName& table,
                                             const Naming& naming) {
  const bool by_position = naming.progress == Progress::position;
  const auto only_by_position = [&](const std::string& text) {
    return by_position ? text : std::string();
  };
  if (what == "waiting") return table.qualified(only_by_position("delivery"));
  if (what == "unfinished" || what == "state") {
    return table.qualified(only_by_position(std::string(what)));
  }
  const std::string own = literal(naming.subscription);
  if (what == "own") return own;
  if (what == "and own") return only_by_position(" AND subscription = " + own);
  if (what == "where own") return only_by_position(" WHERE subscription = " + own);
  if (what == "own column") return only_by_position("subscription, ");
  if (what == "own value") return only_by_position(own + ", ");
  return std::nullopt;
}

}  // namespace

std::string expand(std::string_view text, const TableName& name, const Naming& naming) {
  constexpr std::string_view kIndex = "index ";
  return expand_names(text, [&](std::string_view what) {
    if (what == "table") return name.qualified();
    if (what == "columns") return std::string(kRowColumnNames);
    if (what == "light") return std::string(kLightColumnNames);
    if (what == "record") return expand(kRecordColumnNames, name);
    if (what == "filter") return std::string(sql::kFilter);
    if (what == "told") return expand(kTold, name, naming);
    if (what == "behind") return expand(kBehind, name, naming);
    if (what == "has copies") return expand(kHasCopies, name, naming);
    if (what == "has copy") return expand(kHasCopy, name, naming);
    if (what == "copied") return std::string(kCopiedColumnNames);
    if (what.starts_with(kIndex)) return name.unqualified(what.substr(kIndex.size()));
    if (auto named = named_by_progress(what, name, naming)) return *std::move(named);
    return name.qualified(what);
  });
}

std::shared_ptr<StoreConfig> StoreConfig::of(const std::string& url, Options options) {
  const TableName table = TableName::parse(options.table);
  auto config = std::make_shared<StoreConfig>(url);
  config->table = table;
  config->description = "PostgreSQL database " + config->target.place() + ", table " + table.text();
  config->options = resolved(std::move(options), "postgres");
  return config;
}

}  // namespace outbox::postgres
