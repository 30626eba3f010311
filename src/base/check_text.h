// The checks that every stored text field has to pass.
#pragma once

#include <cstddef>
#include <string_view>

namespace outbox {

// Throws MisuseError that names the field and the value unless the value is
// UTF-8 without NUL of at most `max_length` code points.
void check_text(std::string_view field, std::string_view value, std::size_t max_length);

// The same, and not empty.
void check_name(std::string_view field, std::string_view value, std::size_t max_length);

}  // namespace outbox
