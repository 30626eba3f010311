// An event's contents from the command line.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "outbox/event.h"

namespace outbox::cli {

// The text itself, the contents of the file in "@file", or all of `in` for "-".
// Throws UsageError if the file cannot be read, or if there is more than an
// event may hold, of which no more is read.
std::string read_payload(const std::string& argument, std::istream& in);

// "key=value" each; a value may contain "=". Throws UsageError for one without,
// and for a key that comes twice; the values are never part of the message.
Headers parse_headers(const std::vector<std::string>& arguments);

}  // namespace outbox::cli
