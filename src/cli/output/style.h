// Color, where it is wanted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace outbox::cli {

enum class Style : std::uint8_t { plain, bold, faint, good, warning, bad };

// The text in the style, or as it is if color is not wanted.
std::string styled(std::string_view text, Style style, bool color);

}  // namespace outbox::cli
