#include "store/sqlite/names.h"

#include <algorithm>

#include "core/quote.h"
#include "outbox/error.h"
#include "store/sqlite/operator_sql.h"
#include "store/sqlite/operators.h"
#include "store/sqlite/rows.h"

namespace outbox::sqlite {

void check_table_name(const std::string& table) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool valid =
      !table.empty() && is_letter(table.front()) &&
      std::all_of(table.begin(), table.end(), [&](char c) { return is_letter(c) || is_digit(c); });
  if (!valid) {
    throw MisuseError(quote(table) +
                      " is no table name: it needs letters, digits and _ only, and no digit "
                      "first ([A-Za-z_][A-Za-z0-9_]*)");
  }
}

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
  std::string expanded;
  expanded.reserve(text.size() + 64);
  while (!text.empty()) {
    const auto open = text.find('{');
    expanded.append(text.substr(0, open));
    if (open == std::string_view::npos) break;
    const auto close = text.find('}', open);
    const std::string_view name = text.substr(open + 1, close - open - 1);
    if (name == "columns") {
      expanded.append(kRowColumnNames);
    } else if (name == "record") {
      expanded.append(expand(kRecordColumnNames, table));
    } else if (name == "filter") {
      expanded.append(sql::kFilter);
    } else {
      expanded.append("\"").append(table);
      if (name != "table") expanded.append("_").append(name);
      expanded.append("\"");
    }
    text.remove_prefix(close + 1);
  }
  return expanded;
}

std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"') text.push_back(c);
    text.push_back(c);
  }
  text.push_back('"');
  return text;
}

}  // namespace outbox::sqlite
