// The store itself, and the membership of one engine in it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "outbox/spi/store.h"
#include "store/common/database_store.h"
#include "store/common/server_instance.h"
#include "store/postgres/claims.h"
#include "store/postgres/database.h"
#include "store/postgres/notifier.h"
#include "store/postgres/operators.h"
#include "store/postgres/ownership.h"
#include "store/postgres/reader.h"
#include "store/postgres/store_config.h"
#include "store/postgres/updates.h"

namespace outbox::postgres {

class PostgresInstance;

struct Parts {
  using StoreConfigPtr = postgres::StoreConfigPtr;
  using Database = postgres::Database;
  using Operators = postgres::Operators;
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
class PostgresStore final : public DatabaseStore<Parts> {
 public:
  explicit PostgresStore(const StoreConfigPtr& config);

  Capabilities capabilities() const override;
  std::string side_table(std::string_view name) const override;
  std::unique_ptr<Connection> connect() override;
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override;

 private:
  const std::shared_ptr<Notifier> notifier_;  // null if nobody is to be told
};

// Calls `on_commit` from a thread of its own whenever a Notifier of the same table has
// told of commits, and after every gap in which it could not hear. Behind a pooler that
// swallows notifications it says so once, and is silent.
std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit);

}  // namespace outbox::postgres
