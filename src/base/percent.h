// Special characters in URLs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outbox {

// With %XX for all but letters, digits and what is harmless in every part of a URL: -._~,/
std::string percent_encoded(std::string_view text);

// The reverse. Nullopt if a % is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace outbox
