#include "store/sqlite/store_config.h"

#include <utility>

#include "base/sql_text.h"
#include "base/url.h"
#include "client/sqlite/database.h"
#include "store/common/store_config.h"
#include "store/sqlite/admin_sql.h"
#include "store/sqlite/rows.h"

namespace outbox::sqlite {

std::string describe_database(const std::string& file, const std::string& table) {
  return "SQLite database " + without_secrets(file) + ", table " + table;
}

std::string expand(std::string_view text, const std::string& table) {
  return expand_names(text, [&](std::string_view name) {
    if (name == "columns") return std::string(kRowColumnNames);
    if (name == "record") return expand(kRecordColumnNames, table);
    if (name == "filter") return std::string(sql::kFilter);
    if (name == "is_broken") return std::string(sql::kIsBroken);
    return quoted_name(name == "table" ? table : table + "_" + std::string(name));
  });
}

std::shared_ptr<StoreConfig> StoreConfig::of(const std::string& path, Options options) {
  check_database_path(path);
  check_table_name(options.table);
  options = resolved(std::move(options), "sqlite", "each is an open file and one of them writes");
  auto config = std::make_shared<StoreConfig>();
  config->path = path;
  config->file = path;
  config->description = describe_database(path, options.table);
  config->wait_timeout = options.wait_timeout;
  config->synchronous = options.durability == Durability::full;
  config->options = std::move(options);
  return config;
}

}  // namespace outbox::sqlite
