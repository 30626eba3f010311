// A log that nobody reads.
#pragma once

#include <string_view>

#include "outbox/log.h"

namespace outbox::fuzz {

inline Logger no_log() {
  return [](LogLevel, std::string_view) {};
}

}  // namespace outbox::fuzz
