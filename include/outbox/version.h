// The version of the library. docs/compatibility.md says what the
// numbers promise.
#pragma once

#include <string_view>

#include "outbox/export.h"

// The version of these headers. It is written here and nowhere else: the build
// reads it from these lines.
#define OUTBOX_VERSION_MAJOR 0
#define OUTBOX_VERSION_MINOR 1
#define OUTBOX_VERSION_PATCH 0

// As one number that grows, 1002003 for 1.2.3:
//
//   #if OUTBOX_VERSION_NUMBER >= 1002000
#define OUTBOX_VERSION_NUMBER \
  (OUTBOX_VERSION_MAJOR * 1000000 + OUTBOX_VERSION_MINOR * 1000 + OUTBOX_VERSION_PATCH)

// As text: "1.2.3".
#define OUTBOX_VERSION                       \
  OUTBOX_VERSION_TEXT_(OUTBOX_VERSION_MAJOR) \
  "." OUTBOX_VERSION_TEXT_(OUTBOX_VERSION_MINOR) "." OUTBOX_VERSION_TEXT_(OUTBOX_VERSION_PATCH)
#define OUTBOX_VERSION_TEXT_(number) OUTBOX_VERSION_QUOTE_(number)
#define OUTBOX_VERSION_QUOTE_(number) #number

namespace outbox {

// The version of the library that the program runs with, as text. With shared
// libraries it may be newer than OUTBOX_VERSION, which the program was compiled
// with.
OUTBOX_EXPORT std::string_view version() noexcept;

}  // namespace outbox
