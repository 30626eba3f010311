#include "store/postgres/store_config.h"

#include <utility>

#include "base/sql_text.h"
#include "store/common/store_config.h"
#include "store/postgres/admin_sql.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {

std::string expand(std::string_view text, const TableName& name) {
  constexpr std::string_view kIndex = "index ";
  return expand_names(text, [&](std::string_view what) {
    if (what == "table") return name.qualified();
    if (what == "columns") return std::string(kRowColumnNames);
    if (what == "light") return std::string(kLightColumnNames);
    if (what == "record") return expand(kRecordColumnNames, name);
    if (what == "filter") return std::string(sql::kFilter);
    if (what.starts_with(kIndex)) return name.unqualified(what.substr(kIndex.size()));
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
