#include "store/sqlite/names.h"

#include <algorithm>

#include "base/quote.h"
#include "base/sql_text.h"
#include "base/url.h"
#include "outbox/error.h"
#include "store/sqlite/operator_sql.h"
#include "store/sqlite/operators.h"
#include "store/sqlite/rows.h"

namespace outbox::sqlite {

namespace {

// A URL or settings that were meant for a server: they may hold a password, and would become the
// name of a file.
void refuse_other_stores(const std::string& path) {
  const std::string scheme = scheme_of(path);
  const std::string rest = path.substr(std::min(scheme.size(), path.size()));
  if (scheme == "file") {
    if (!rest.starts_with("://") || rest.starts_with(":///") || rest.starts_with("://localhost/")) {
      return;
    }
    throw MisuseError("a file:// URL names no host: write file:PATH, or file:///ABSOLUTE/PATH");
  }
  if (!scheme.empty() && rest.starts_with("://")) {
    throw MisuseError("a path of an SQLite database begins with " + quote(scheme + "://") +
                      ", which is a URL: pass it to outbox::open(), or to open() of its own store");
  }
  if (has_password_setting(path)) {
    throw MisuseError(
        "a path of an SQLite database has a password in it, as the settings of a connection do: "
        "pass them to open() of their own store");
  }
}

}  // namespace

void check_database_path(const std::string& path) {
  const auto has = [&](const char* text) { return path.find(text) != std::string::npos; };
  const bool is_uri = path.starts_with("file:");
  if (path.empty() || path == ":memory:" ||
      (is_uri && (has(":memory:") || has("mode=memory") || has("vfs=memdb")))) {
    throw MisuseError(quote(without_secrets(path)) +
                      " names a database without a file: use outbox::memory::open(), or give a "
                      "path");
  }
  refuse_other_stores(path);
}

std::string path_of_url(std::string_view url) {
  if (scheme_of(url) != kUrlScheme) return std::string(url);
  std::string_view path = url.substr(kUrlScheme.size() + 1);
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

std::string describe_database(const std::string& file, const std::string& table) {
  return "SQLite database " + without_secrets(file) + ", table " + table;
}

std::string expand(std::string_view text, const std::string& table) {
  return expand_names(text, [&](std::string_view name) {
    if (name == "columns") return std::string(kRowColumnNames);
    if (name == "record") return expand(kRecordColumnNames, table);
    if (name == "filter") return std::string(sql::kFilter);
    if (name == "is_broken") return std::string(sql::kIsBroken);
    return quoted_name(name == "table" ? table : table + "_" + std::string(name));
  });
}

}  // namespace outbox::sqlite
