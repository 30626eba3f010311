// The store itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "outbox/spi/store.h"
#include "store/common/database_store.h"
#include "store/sqlite/database.h"
#include "store/sqlite/instance.h"
#include "store/sqlite/operators.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

struct Parts {
  using StoreConfigPtr = sqlite::StoreConfigPtr;
  using Database = sqlite::Database;
  using Operators = sqlite::Operators;
  using Instance = SqliteInstance;
};

// Thread-safe.
class SqliteStore final : public DatabaseStore<Parts> {
 public:
  // Takes the connection over that the schema was checked on.
  SqliteStore(const StoreConfigPtr& config, std::unique_ptr<Database> first);

  Capabilities capabilities() const override;
  std::string side_table(std::string_view name) const override;
  std::unique_ptr<Connection> connect() override;
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override;
};

// Calls `on_commit` from a thread of its own soon after any connection has
// committed, at most about once a millisecond. Null, after a line in the log,
// if the system cannot tell.
std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit);

}  // namespace outbox::sqlite
