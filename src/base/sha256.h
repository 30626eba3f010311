// SHA-256 (FIPS 180-4): tells whether two texts are the same, without keeping them.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// In 64 hexadecimal digits, lower case. Thread-safe.
std::string sha256_hex(std::string_view bytes);

}  // namespace outbox
