// Hearing of commits.
#pragma once

#include <functional>
#include <memory>

#include "outbox/spi/store.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// Calls `on_commit` from a thread of its own whenever a Notifier of the same table has
// told of commits, and after every gap in which it could not hear. Behind a pooler that
// swallows notifications it says so once, and is silent.
std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit);

}  // namespace outbox::postgres
