// URLs: what they begin with, what must not be shown of them, their parts and special characters.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// What a URL of a server says, with its %XX decoded:
//
//   scheme://[user[:password]@][host[:port]{,host[:port]}][/path][?name=value{&name=value}]
struct Url {
  struct Host {
    std::string name{};  // may be empty; of a number with colons, without its brackets
    int port = 0;        // 0: it has none
  };

  std::string scheme{};  // in lower case
  std::optional<std::string> user{};
  std::optional<std::string> password{};
  std::vector<Host> hosts{};   // at least one
  std::string path{};          // without the slash before it
  bool has_deep_path = false;  // whether it has slashes of its own that are not written as %2F
  std::vector<std::pair<std::string, std::string>> query{};
};

// Nullopt if it is none. An @ or # where a password that should have been written with %40 or
// %23 would leave it is refused: what follows must not pass for a host, a path or an option,
// for those are shown.
std::optional<Url> parse_url(std::string_view text);

// With %XX for all but letters, digits and what is harmless in every part of a URL: -._~,/
std::string percent_encoded(std::string_view text);

// The reverse. Nullopt if a % is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace outbox
