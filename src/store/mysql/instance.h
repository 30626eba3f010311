// One engine's membership.
#pragma once

#include "store/common/server_instance.h"
#include "store/mysql/claims.h"
#include "store/mysql/database.h"
#include "store/mysql/ownership.h"
#include "store/mysql/reader.h"
#include "store/mysql/updates.h"

namespace outbox::mysql {

struct InstanceParts {
  using StoreConfigPtr = mysql::StoreConfigPtr;
  using Database = mysql::Database;
  using Ownership = mysql::Ownership;
  using Reader = mysql::Reader;
  using Claims = mysql::Claims;
  using Updates = mysql::Updates;
};

class MysqlInstance final : public ServerInstance<InstanceParts> {
 public:
  MysqlInstance(const StoreConfigPtr& config, InstanceOptions options);
};

}  // namespace outbox::mysql
