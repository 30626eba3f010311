// How much room text takes on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outbox::cli {

// Columns that printable UTF-8 takes: two for a wide character (most of East
// Asia, emoji), none for a update that combines with the one before it.
std::size_t display_width(std::string_view text);

// The text if it fits, or as much of its beginning as fits with "…" behind it.
std::string cut_to_width(std::string_view text, std::size_t width);

// Spaces behind or before the text, up to the width.
std::string pad_to_width(std::string_view text, std::size_t width, bool before);

}  // namespace outbox::cli
