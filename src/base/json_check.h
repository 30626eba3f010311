// Whether a text is JSON.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace outbox {

struct JsonFault {
  std::size_t offset = 0;  // in bytes
  std::string_view what{};
};

// The first fault of the text by RFC 8259, its UTF-8 included; nullopt if it is
// one JSON value. Any depth of nesting is fine: nothing recurses. Escaped lone
// surrogates are fine too, as the grammar allows them. Thread-safe.
std::optional<JsonFault> check_json(std::string_view text);

}  // namespace outbox
