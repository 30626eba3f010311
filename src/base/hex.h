// Numbers and bytes in hexadecimal digits, lower case.
#pragma once

#include <cstdint>
#include <string>

namespace outbox {

// The last so many digits of the value.
inline void append_hex(std::string& out, std::uint64_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out += "0123456789abcdef"[value >> shift & 15];
  }
}

// Two for each byte of a range.
template <class Bytes>
void append_hex(std::string& out, const Bytes& bytes) {
  for (const auto byte : bytes) append_hex(out, static_cast<unsigned char>(byte), 2);
}

}  // namespace outbox
