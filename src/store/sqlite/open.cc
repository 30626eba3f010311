#include <algorithm>
#include <string>
#include <utility>

#include "core/bounded.h"
#include "core/sql_text.h"
#include "outbox/error.h"
#include "outbox/sqlite.h"
#include "store/sqlite/names.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/sqlite_store.h"

namespace outbox::sqlite {
namespace {

constexpr std::size_t kMostConnections = 10'000;

Options resolved(Options options) {
  check_table_name(options.table);
  if (options.connections == 0) {
    throw MisuseError("sqlite::Options::connections is 0: it needs at least 1");
  }
  if (options.connections > kMostConnections) {
    throw MisuseError("sqlite::Options::connections is " + std::to_string(options.connections) +
                      ": at most " + std::to_string(kMostConnections) +
                      " are allowed, because each is an open file and one of them writes");
  }
  if (options.wait_timeout < std::chrono::milliseconds::zero()) {
    throw MisuseError("sqlite::Options::wait_timeout is negative: " +
                      std::to_string(options.wait_timeout.count()) + " ms");
  }
  options.wait_timeout = internal::bounded(options.wait_timeout);
  if (!options.codec) options.codec = default_json_codec();
  if (!options.log) options.log = standard_error_log();
  if (options.clock == nullptr) options.clock = &host_clock();
  return options;
}

}  // namespace

std::shared_ptr<Store> open(const std::string& path, Options options) {
  check_database_path(path);
  options = resolved(std::move(options));
  const auto environment = std::make_shared<Environment>();
  environment->path = path;
  environment->file = path;
  environment->description = describe_database(path, options.table);
  environment->options = std::move(options);
  const bool migrate = environment->options.migrate;

  // Without migration a new file would be of no use: don't leave one behind.
  auto first = std::make_unique<Database>(environment, migrate);
  environment->file = sqlite3_db_filename(first->handle(), "main");
  environment->description = describe_database(environment->file, environment->options.table);
  ensure_schema(*first, migrate);
  return std::make_shared<SqliteStore>(environment, std::move(first));
}

}  // namespace outbox::sqlite
