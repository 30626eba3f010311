#include "cli/stores/find_backend.h"

#include <algorithm>

#include "cli/errors.h"
#include "cli/stores/sqlite_backend.h"
#include "core/quote.h"
#include "core/url_scheme.h"
#include "outbox/open.h"
#include "outbox/sqlite.h"
#include "store/sqlite/url.h"

#ifdef OUTBOX_WITH_POSTGRES
#include "cli/stores/postgres/postgres_backend.h"
#include "outbox/postgres.h"
#endif

namespace outbox::cli {
namespace {

bool is_one_of(const std::string& name, const Scheme& scheme) {
  return std::find(scheme.names.begin(), scheme.names.end(), name) != scheme.names.end();
}

[[noreturn]] void throw_unknown(const std::string& scheme) {
  std::string message = "no store is known for " + quote(scheme + ":") + "; this binary knows ";
  message += known_urls();
#ifndef OUTBOX_WITH_POSTGRES
  if (scheme == "postgresql" || scheme == "postgres") {
    throw ConfigurationError(message + ": it was built without PostgreSQL");
  }
#endif
  throw ConfigurationError(message + " (for a file with a colon in its name write sqlite:./NAME)");
}

}  // namespace

std::unique_ptr<Backend> find_backend(std::string_view url, const std::string& table) {
  const std::string scheme = scheme_of(url);
  if (url.empty()) throw ConfigurationError("the store's URL names no file; write sqlite:PATH");
  if (scheme.empty()) return std::make_unique<SqliteBackend>(std::string(url), table);
  if (is_one_of(scheme, sqlite::scheme())) {
    return std::make_unique<SqliteBackend>(sqlite::path_of_url(url), table);
  }
#ifdef OUTBOX_WITH_POSTGRES
  if (is_one_of(scheme, postgres::scheme())) {
    return std::make_unique<PostgresBackend>(with_lower_scheme(url), table);
  }
#endif
  throw_unknown(scheme);
}

std::string_view known_urls() {
#ifdef OUTBOX_WITH_POSTGRES
  return "sqlite:PATH and postgresql://USER@HOST:PORT/DATABASE";
#else
  return "sqlite:PATH";
#endif
}

}  // namespace outbox::cli
