// Stores by name: the one place that knows which databases there are.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cli/stores/backend.h"

namespace outbox::cli {

// Understands the URLs of sqlite::scheme() and, where they were built in, of
// postgres::scheme() and mysql::scheme(); and a plain path, for SQLite. Opens nothing yet.
//
// Throws ConfigurationError or MisuseError for anything else; the message never
// contains more of it than the scheme, which holds no password.
std::unique_ptr<Backend> find_backend(std::string_view url, const std::string& table);

// What --db takes, for messages: "sqlite:PATH, postgresql://...".
std::string known_urls();

}  // namespace outbox::cli
