// The store itself, and the membership of one engine in it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "outbox/admin/schema.h"
#include "outbox/spi/store.h"
#include "store/common/database_store.h"
#include "store/mysql/admin.h"
#include "store/mysql/ownership.h"
#include "store/mysql/reader.h"
#include "store/mysql/store_config.h"
#include "store/mysql/updates.h"

namespace outbox::mysql {

class MysqlInstance;

struct Parts {
  static constexpr Dialect kDialect = Dialect::mysql;
  using StoreConfigPtr = mysql::StoreConfigPtr;
  using Database = mysql::Database;
  using AdminStatements = mysql::AdminStatements;
  using Subscriptions = NoSubscriptions;
  using Instance = MysqlInstance;
  using Ownership = mysql::Ownership;
  using Reader = mysql::Reader;
  using Claims = mysql::Claims;
  using Updates = mysql::Updates;
};

class MysqlInstance final : public ServerInstance<Parts> {
 public:
  MysqlInstance(const StoreConfigPtr& config, InstanceOptions options);
};

// Thread-safe.
class MysqlStore final : public ServerStore<Parts> {
 public:
  explicit MysqlStore(const StoreConfigPtr& config);

  std::unique_ptr<Connection> connect() override;
  std::unique_ptr<Connection> wrap(ExternalHandle handle) override;
  std::shared_ptr<const ExecutorDialect> executor_dialect() const override;
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override;
};

// The server tells nobody of commits. So a thread asks for the highest number, on a
// connection of its own: every 4 ms while there are new ones, and more rarely the longer
// there are none, down to twice a second. An event that ends a silence is noticed within a
// sixteenth of it. A row that is committed later than one with a higher number is not
// noticed; the next poll finds it.
std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit);

// Where the tables stand. Changes nothing.
SchemaStatus read_schema_status(Database& database);

// Brings the tables up to date; several processes may do so at once. The server commits
// every statement by itself, so a step that was interrupted is repeated from its
// beginning. Throws PermanentError if they are newer than this library, or out of date
// and `migrate` is not set.
void ensure_schema(Database& database, bool migrate);

// When the tables were made, as text, and how far apart the numbers are that an INSERT gives to its
// rows.
inline constexpr const char* kBornSql =
    "SELECT CAST(applied_at AS CHAR), @@auto_increment_increment FROM {migration}"
    " ORDER BY version LIMIT 1";

// When the tables were made; empty if this session may not read it or finds none.
std::string born_at(Session& session);

}  // namespace outbox::mysql
