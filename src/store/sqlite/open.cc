#include <string>
#include <utility>

#include "core/sql_text.h"
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
  const auto environment = std::make_shared<Environment>();
  environment->path = path;
  environment->file = path;
  environment->description = describe_database(path, options.table);
  environment->options = std::move(options);
  const bool migrate = environment->options.migrate;

  // Without migration a new file would be of no use: don't leave one behind.
  auto first = std::make_unique<Database>(environment, migrate);
  environment->file = sqlite3_db_filename(first->handle(), "main");
  environment->identity = FileIdentity::of(environment->file);
  environment->description = describe_database(environment->file, environment->options.table);
  ensure_schema(*first, migrate);
  return std::make_shared<SqliteStore>(environment, std::move(first));
}

}  // namespace outbox::sqlite
