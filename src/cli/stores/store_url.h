// Stores by name: the one place that knows which databases there are.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cli/stores/backend.h"

namespace outbox::cli {

// "sqlite:shop.db" taken apart.
struct StoreUrl {
  std::string scheme{};
  std::string place{};  // what the scheme makes of it: a path, for SQLite
};

// Understands `sqlite:PATH`, `sqlite:///ABSOLUTE/PATH`, SQLite's own
// `file:...?...`, and a plain path. Throws ConfigurationError for anything else;
// the message never contains more of it than the scheme, which holds no password.
StoreUrl parse_store_url(std::string_view url);

// Opens nothing yet. Throws as above.
std::unique_ptr<Backend> find_backend(std::string_view url, const std::string& table);

}  // namespace outbox::cli
