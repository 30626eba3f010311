// Noticing commits.
#pragma once

#include <functional>
#include <memory>

#include "outbox/spi/store.h"
#include "store/mysql/store_config.h"

namespace outbox::mysql {

// The server tells nobody of commits. So a thread asks for the highest number, on a
// connection of its own: some fifty times a second while there are new ones, and ever
// more rarely, down to twice a second, while there are none. A row that is committed
// later than one with a higher number is not noticed; the next poll finds it.
std::unique_ptr<Watch> watch_commits(StoreConfigPtr config, std::function<void()> on_commit);

}  // namespace outbox::mysql
