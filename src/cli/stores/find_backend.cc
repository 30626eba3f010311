#include "cli/stores/find_backend.h"

#include <algorithm>
#include <vector>

#include "base/quote.h"
#include "base/url_scheme.h"
#include "cli/errors.h"
#include "cli/stores/sqlite/sqlite_backend.h"
#include "outbox/open.h"
#include "outbox/sqlite.h"
#include "store/sqlite/url.h"

#ifdef OUTBOX_WITH_POSTGRES
#include "cli/stores/postgres/postgres_backend.h"
#endif
#ifdef OUTBOX_WITH_MYSQL
#include "cli/stores/mysql/mysql_backend.h"
#endif

namespace outbox::cli {
namespace {

using Make = std::unique_ptr<Backend> (*)(std::string url, const std::string& table);

template <class Kind>
std::unique_ptr<Backend> make(std::string url, const std::string& table) {
  return std::make_unique<Kind>(std::move(url), table);
}

#ifdef OUTBOX_WITH_POSTGRES
constexpr Make kMakePostgres = make<PostgresBackend>;
#else
constexpr Make kMakePostgres = nullptr;
#endif
#ifdef OUTBOX_WITH_MYSQL
constexpr Make kMakeMysql = make<MysqlBackend>;
#else
constexpr Make kMakeMysql = nullptr;
#endif

struct Server {
  std::string_view product;
  std::vector<std::string_view> schemes;
  std::string_view url;
  Make make;  // null: this binary was built without it
};

const std::vector<Server>& servers() {
  static const std::vector<Server> all{
      {"PostgreSQL",
       {"postgresql", "postgres"},
       "postgresql://USER@HOST:PORT/DATABASE",
       kMakePostgres},
      {"MariaDB and MySQL", {"mysql", "mariadb"}, "mysql://USER@HOST:PORT/DATABASE", kMakeMysql},
  };
  return all;
}

template <class Names>
bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::unique_ptr<Backend> find_backend(std::string_view url, const std::string& table) {
  const std::string scheme = scheme_of(url);
  if (url.empty()) throw ConfigurationError("the store's URL names no file; write sqlite:PATH");
  if (scheme.empty()) return std::make_unique<SqliteBackend>(std::string(url), table);
  if (contains(sqlite::scheme().names, scheme)) {
    return std::make_unique<SqliteBackend>(sqlite::path_of_url(url), table);
  }
  const std::string message =
      "no store is known for " + quote(scheme + ":") + "; this binary knows " + known_urls();
  for (const Server& server : servers()) {
    if (!contains(server.schemes, scheme)) continue;
    if (server.make != nullptr) return server.make(with_lower_scheme(url), table);
    throw ConfigurationError(message + ": it was built without " + std::string(server.product));
  }
  throw ConfigurationError(message + " (for a file with a colon in its name write sqlite:./NAME)");
}

std::string known_urls() {
  std::string text = "sqlite:PATH";
  for (const Server& server : servers()) {
    if (server.make != nullptr) text.append(", ").append(server.url);
  }
  return text;
}

}  // namespace outbox::cli
