#include "store/mysql/store_config.h"

#include <utility>

#include "base/sql_text.h"
#include "store/common/store_config.h"
#include "store/mysql/sql.h"

namespace outbox::mysql {

std::string expand(std::string_view text, const TableName& name) {
  return expand_names(text, [&](std::string_view what) {
    if (what == "table") return name.qualified();
    if (what == "columns") return std::string(kRowColumnNames);
    if (what == "light") return std::string(kLightColumnNames);
    if (what == "record") return std::string(kRecordColumnNames);
    if (what == "now") return std::string(kNow);
    if (what == "by_number") return expand(kByNumber, name);
    if (what == "dead") return expand(kDead, name);
    if (what == "unfinished") return expand(kUnfinished, name);
    if (what == "anywhere") return expand(kAnywhere, name);
    return name.qualified(what);
  });
}

std::shared_ptr<StoreConfig> StoreConfig::of(const std::string& url, Options options) {
  const TableName table = TableName::parse(options.table);
  auto config = std::make_shared<StoreConfig>(url);
  config->table = table;
  config->description = "MySQL database " + config->target.place() + ", table " + table.text();
  config->options = resolved(std::move(options), "mysql");
  return config;
}

}  // namespace outbox::mysql
