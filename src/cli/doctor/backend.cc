#include "cli/doctor/backend.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/url.h"
#include "cli/errors.h"
#include "client/sqlite/database.h"
#include "outbox/open.h"
#include "outbox/sqlite.h"

namespace outbox::cli {
namespace {

// That of every store's options.
constexpr std::string_view kDefaultTable = "outbox_event";

using Make = std::unique_ptr<Backend> (*)(std::string url, std::string table);

#ifdef OUTBOX_WITH_POSTGRES
constexpr Make kMakePostgres = [](std::string url, std::string table) {
  return make_postgres_backend(std::move(url), std::move(table));
};
#else
constexpr Make kMakePostgres = nullptr;
#endif
#ifdef OUTBOX_WITH_MYSQL
constexpr Make kMakeMysql = [](std::string url, std::string table) {
  return make_mysql_backend(std::move(url), std::move(table));
};
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

std::string versions(const SchemaStatus& status) {
  return "version " + std::to_string(status.present) + ", and this outbox needs version " +
         std::to_string(status.latest);
}

}  // namespace

std::unique_ptr<Backend> find_backend(std::string_view url, const std::string& table) {
  const std::string scheme = scheme_of(url);
  if (url.empty()) throw ConfigurationError("the database's URL names no file; write sqlite:PATH");
  if (scheme.empty()) return make_sqlite_backend(std::string(url), table);
  if (contains(sqlite::scheme().names, scheme)) {
    return make_sqlite_backend(sqlite::path_of_url(url), table);
  }
  const std::string message =
      "no store is known for " + quote(scheme + ":") + "; supported are " + known_urls();
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

bool Backend::switch_progress(Progress /*to*/,
                              const std::function<void(const std::string&)>& /*say*/) {
  throw UsageError("the " + description() +
                   " keeps its progress in its rows, and cannot be switched");
}

void check_by_row(std::optional<Progress> progress) {
  if (progress != Progress::position) return;
  throw UsageError("--progress position is for PostgreSQL: elsewhere progress stands in the rows");
}

void check_schema(const Backend& backend, const SchemaStatus& status) {
  const std::string how = "; run: outbox migrate up " + backend.arguments();
  if (status.newer()) {
    throw ConfigurationError("the schema of the " + backend.description() + " has " +
                             versions(status) +
                             ": use the version of outbox that made it, or a later one");
  }
  if (status.present == 0) {
    const std::string file = backend.missing_file();
    if (!file.empty()) {
      throw ConfigurationError("there is no file " + file +
                               ": check --db, or make a new database with: outbox migrate up " +
                               backend.arguments());
    }
    throw ConfigurationError("there is no outbox in the " + backend.description() + how);
  }
  if (!status.up_to_date()) {
    throw ConfigurationError("the schema of the " + backend.description() + " has " +
                             versions(status) + how);
  }
}

std::string store_arguments(std::string_view public_url, const std::string& table) {
  std::string text = "--db " + shell_word(public_url);
  if (table != kDefaultTable) text += " --table " + shell_word(table);
  return text;
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@%+";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

}  // namespace outbox::cli
