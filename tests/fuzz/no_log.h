// A log that nobody reads.
#pragma once

#include <string_view>

#include "outbox/log.h"

namespace outbox::fuzz {

inline Logger no_log() {
  return [](const LogRecord&) {};
}

}  // namespace outbox::fuzz
