// Ids for others to see.
#pragma once

#include <string>
#include <string_view>

namespace outbox::internal {

// "<prefix>_" (nothing, if the prefix is empty) and 20 characters of Crockford's base 32:
// 100 bits of the operating system's random source. It tells neither when it was made
// nor how many there are, and cannot be guessed. Thread-safe; right after fork(), too.
std::string new_public_id(std::string_view prefix);

// Throws MisuseError unless it is at most 32 letters, digits, "-" and "_".
void check_public_id_prefix(std::string_view field, std::string_view prefix);

}  // namespace outbox::internal
