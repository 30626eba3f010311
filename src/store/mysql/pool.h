// The connections that users and operators wrap.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/connection_pool.h"
#include "store/mysql/database.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

// Lends connected ones. A connection that was lost, or that comes back in the middle
// of something, is closed.
using Pool = ConnectionPool<Database>;
using PoolHandle = Pool::Handle;

// `hint` ends the error of those who waited in vain: what to do. `limit`: how long the server
// may take for a statement; 0: no limit. `on_open` is called with each new connection.
std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, Use use, std::size_t size,
                                std::string hint, std::chrono::milliseconds limit,
                                std::function<void(MYSQL*)> on_open = {});

}  // namespace outbox::mysql
