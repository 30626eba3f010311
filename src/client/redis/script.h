// Scripts that the server runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "client/redis/connection.h"

namespace outbox::redis {

// Lua, sent once and called by its digest from then on. Thread-safe.
class Script {
 public:
  // The text must live as long as the script.
  explicit Script(std::string_view text) : text_(text) {}

  // Throws as Connection::command() does.
  ReplyHandle run(Connection& connection, std::string_view key,
                  const std::vector<std::string_view>& arguments) OUTBOX_EXCLUDES(mutex_);

 private:
  std::string digest(Connection& connection) OUTBOX_EXCLUDES(mutex_);

  const std::string_view text_;

  Mutex mutex_;
  std::string digest_ OUTBOX_GUARDED_BY(mutex_);  // empty: not known yet
};

}  // namespace outbox::redis
