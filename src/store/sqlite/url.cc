#include "store/sqlite/url.h"

#include <utility>

#include "base/url_scheme.h"
#include "outbox/error.h"
#include "outbox/open.h"
#include "outbox/sqlite.h"

namespace outbox::sqlite {
namespace {

constexpr std::string_view kScheme = "sqlite";
constexpr std::string_view kOwnScheme = "file";

}  // namespace

std::string path_of_url(std::string_view url) {
  if (scheme_of(url) != kScheme) return std::string(url);
  std::string_view path = url.substr(kScheme.size() + 1);
  if (path.starts_with("//")) {
    path.remove_prefix(2);
    if (!path.starts_with("/")) {
      throw MisuseError(
          "a sqlite:// URL names no host: write sqlite:PATH, or sqlite:///ABSOLUTE/PATH");
    }
  }
  if (path.empty()) throw MisuseError("the store's URL names no file; write sqlite:PATH");
  return std::string(path);
}

Scheme scheme(Options options) {
  return {.names = {std::string(kScheme), std::string(kOwnScheme)},
          .open = [options = std::move(options)](const std::string& url) {
            return sqlite::open(path_of_url(url), options);
          }};
}

}  // namespace outbox::sqlite
