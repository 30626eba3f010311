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

// For messages about what may be a URL or the settings of a connection, in the right place
// or not: what may hold a password becomes "...". That is whatever follows "://", the colon of
// user:password@host, or password= and its kin.
std::string without_secrets(std::string_view text);

// Whether the text holds password= or its kin, as the settings of a connection do.
bool has_password_setting(std::string_view text);

}  // namespace outbox
