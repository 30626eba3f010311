// The connections that users and operators wrap.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/connection_pool.h"
#include "store/postgres/database.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// Lends connected ones. A connection that was lost, or that comes back in the middle
// of something, is closed.
using Pool = ConnectionPool<Database>;
using PoolHandle = Pool::Handle;

// `hint` ends the error of those who waited in vain: what to do. `limit`: how long a
// statement may take; 0: no limit. `on_open` is called with each new connection.
std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, Use use, std::size_t size,
                                std::string hint, std::chrono::milliseconds limit,
                                std::function<void(PGconn*)> on_open = {});

}  // namespace outbox::postgres
