#include "store/sqlite/names.h"

#include "core/quote.h"
#include "core/sql_text.h"
#include "outbox/error.h"
#include "store/sqlite/operator_sql.h"
#include "store/sqlite/operators.h"
#include "store/sqlite/rows.h"

namespace outbox::sqlite {

void check_database_path(const std::string& path) {
  const auto has = [&](const char* text) { return path.find(text) != std::string::npos; };
  const bool is_uri = path.starts_with("file:");
  if (path.empty() || path == ":memory:" ||
      (is_uri && (has(":memory:") || has("mode=memory") || has("vfs=memdb")))) {
    throw MisuseError(quote(path) +
                      " names a database without a file: use outbox::memory::open(), or give a "
                      "path");
  }
}

std::string describe_database(const std::string& file, const std::string& table) {
  return "SQLite database " + file + ", table " + table;
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
