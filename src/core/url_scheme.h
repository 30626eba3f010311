// What a URL begins with.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// The scheme in lower case, without the colon; empty if the text has none. A single
// letter is none: c:shop.db is a file.
std::string scheme_of(std::string_view url);

// The same URL with its scheme in lower case.
std::string with_lower_scheme(std::string_view url);

// For messages: whatever follows "://" may hold a password, and becomes "...".
std::string without_secrets(std::string_view text);

}  // namespace outbox
