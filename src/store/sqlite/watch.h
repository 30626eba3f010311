// Noticing commits of any process.
#pragma once

#include <functional>
#include <memory>

#include "outbox/spi/store.h"
#include "store/sqlite/store_config.h"

namespace outbox::sqlite {

// Calls `on_commit` from a thread of its own soon after any connection has
// committed, at most about once a millisecond. Null, after a line in the log,
// if the system cannot tell.
std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit);

}  // namespace outbox::sqlite
