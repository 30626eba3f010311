#include <string>
#include <utility>

#include "base/sql_text.h"
#include "outbox/sqlite.h"
#include "store/common/options.h"
#include "store/sqlite/names.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/sqlite_store.h"

namespace outbox::sqlite {

std::shared_ptr<Store> open(const std::string& path, Options options) {
  check_database_path(path);
  check_table_name(options.table);
  options = resolved(std::move(options), "sqlite", "each is an open file and one of them writes");
  const auto config = std::make_shared<StoreConfig>();
  config->path = path;
  config->file = path;
  config->description = describe_database(path, options.table);
  config->options = std::move(options);
  const bool migrate = config->options.migrate;

  // Without migration a new file would be of no use: don't leave one behind.
  auto first = std::make_unique<Database>(config, migrate);
  config->file = sqlite3_db_filename(first->handle(), "main");
  config->identity = FileIdentity::of(config->file);
  config->description = describe_database(config->file, config->options.table);
  ensure_schema(*first, migrate);
  return std::make_shared<SqliteStore>(config, std::move(first));
}

}  // namespace outbox::sqlite
