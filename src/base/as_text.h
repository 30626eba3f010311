// Bytes as the C interfaces of the database clients take them.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace outbox {

inline std::string_view as_text(std::span<const std::byte> bytes) {
  // A null pointer would pass for NULL.
  if (bytes.empty()) return "";
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace outbox
