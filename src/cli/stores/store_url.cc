#include "cli/stores/store_url.h"

#include <algorithm>

#include "cli/errors.h"
#include "cli/stores/sqlite_backend.h"
#include "core/quote.h"

namespace outbox::cli {
namespace {

constexpr std::string_view kSqlite = "sqlite";
constexpr std::string_view kSqliteUri = "file";

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The part before the colon if it looks like one; a single letter does not.
std::string scheme_of(std::string_view url) {
  const auto colon = url.find(':');
  if (colon == std::string_view::npos || colon < 2 || !is_letter(url.front())) return {};
  std::string scheme(url.substr(0, colon));
  const bool valid = std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
  if (!valid) return {};
  for (char& c : scheme) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return scheme;
}

std::string sqlite_path(std::string_view rest) {
  if (!rest.starts_with("//")) return std::string(rest);
  rest.remove_prefix(2);
  if (!rest.starts_with("/")) {
    throw ConfigurationError(
        "a sqlite:// URL names no host: write sqlite:PATH, or sqlite:///ABSOLUTE/PATH");
  }
  return std::string(rest);
}

}  // namespace

StoreUrl parse_store_url(std::string_view url) {
  const std::string scheme = scheme_of(url);
  StoreUrl result{.scheme = std::string(kSqlite), .place = std::string(url)};
  if (scheme == kSqlite) {
    result.place = sqlite_path(url.substr(kSqlite.size() + 1));
  } else if (!scheme.empty() && scheme != kSqliteUri) {
    throw ConfigurationError("no store is known for " + quote(scheme + ":") +
                             "; this binary knows sqlite:PATH (for a file with a colon in its "
                             "name write sqlite:./NAME)");
  }
  if (result.place.empty()) {
    throw ConfigurationError("the store's URL names no file; write sqlite:PATH");
  }
  return result;
}

std::unique_ptr<Backend> find_backend(std::string_view url, const std::string& table) {
  return std::make_unique<SqliteBackend>(parse_store_url(url).place, table);
}

}  // namespace outbox::cli
