// The store itself, and the membership of one engine in it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/postgres/notifications.h"
#include "outbox/admin/schema.h"
#include "outbox/spi/store.h"
#include "store/common/database_store.h"
#include "store/postgres/admin.h"
#include "store/postgres/ownership.h"
#include "store/postgres/reader.h"
#include "store/postgres/store_config.h"
#include "store/postgres/subscriptions.h"
#include "store/postgres/updates.h"

namespace outbox::postgres {

class PostgresInstance;

struct Parts {
  static constexpr Dialect kDialect = Dialect::postgres;
  using StoreConfigPtr = postgres::StoreConfigPtr;
  using Database = postgres::Database;
  using AdminStatements = postgres::AdminStatements;
  using Subscriptions = postgres::Subscriptions;
  using Instance = PostgresInstance;
  using Ownership = postgres::Ownership;
  using Reader = postgres::Reader;
  using Claims = postgres::Claims;
  using Updates = postgres::Updates;
};

class PostgresInstance final : public ServerInstance<Parts> {
 public:
  PostgresInstance(const StoreConfigPtr& config, InstanceOptions options);
};

// Thread-safe.
class PostgresStore final : public ServerStore<Parts> {
 public:
  explicit PostgresStore(const StoreConfigPtr& config);

  // The same table for another subscription: it shares the users' connections of `other`.
  PostgresStore(const StoreConfigPtr& config, const PostgresStore& other);

  Capabilities capabilities() const override;
  std::unique_ptr<Instance> join(InstanceOptions options) override;
  std::shared_ptr<Store> subscription(std::string_view name) override;
  std::unique_ptr<Connection> connect() override;
  std::unique_ptr<Connection> wrap(ExternalHandle handle) override;
  std::shared_ptr<const ExecutorDialect> executor_dialect() const override;
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override;

 private:
  const std::shared_ptr<Notifier> notifier_;  // null if nobody is to be told
};

// Where the tables stand. Changes nothing.
SchemaStatus read_schema_status(Database& database);

// Brings the tables up to date, each step in a transaction of its own; several
// processes may do so at once. Throws PermanentError if they are newer than this
// library, or out of date and `migrate` is not set.
void ensure_schema(Database& database, bool migrate);

// How the table keeps progress; one that nobody has used yet is made to keep it as wanted. Throws
// PermanentError if it keeps it otherwise.
Progress ensure_progress(Database& database, std::optional<Progress> wanted, bool migrate);

// What is run beside a table that has the columns and indexes for it, so that it keeps its progress
// by position.
std::string positions_sql();

// The schema that the table is in, whatever the search path of later connections.
std::string schema_of_table(Database& database);

}  // namespace outbox::postgres
