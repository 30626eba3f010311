// One engine's membership.
#pragma once

#include "store/common/server_instance.h"
#include "store/postgres/claims.h"
#include "store/postgres/database.h"
#include "store/postgres/ownership.h"
#include "store/postgres/reader.h"
#include "store/postgres/updates.h"

namespace outbox::postgres {

struct InstanceParts {
  using StoreConfigPtr = postgres::StoreConfigPtr;
  using Database = postgres::Database;
  using Ownership = postgres::Ownership;
  using Reader = postgres::Reader;
  using Claims = postgres::Claims;
  using Updates = postgres::Updates;
};

class PostgresInstance final : public ServerInstance<InstanceParts> {
 public:
  PostgresInstance(const StoreConfigPtr& config, InstanceOptions options);
};

}  // namespace outbox::postgres
