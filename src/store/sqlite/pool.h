// The connections that users and operators wrap.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/connection_pool.h"
#include "store/sqlite/database.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// Rolls back what a user left open.
using Pool = ConnectionPool<Database>;
using PoolHandle = Pool::Handle;

// `hint` ends the error of those who waited in vain: what to do. `on_open` is called
// with each new connection; `first` is one to begin with, or null.
std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, std::size_t size, std::string hint,
                                std::function<void(sqlite3*)> on_open = {},
                                std::unique_ptr<Database> first = nullptr);

}  // namespace outbox::sqlite
