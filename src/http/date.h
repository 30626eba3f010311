// Times as HTTP writes them.
#pragma once

#include <string>

#include "outbox/clock.h"

namespace outbox::http {

// "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale. Thread-safe.
std::string http_date(Time time);

}  // namespace outbox::http
