#include "store/mysql/names.h"

#include "base/quote.h"
#include "base/sql_text.h"
#include "outbox/error.h"
#include "store/mysql/columns.h"

namespace outbox::mysql {
namespace {

// The server takes 64 characters; the longest suffix is `_migration`.
constexpr std::size_t kLongestTable = 48;
constexpr std::size_t kLongestDatabase = 64;

void check_length(const std::string& name, std::size_t longest) {
  if (name.size() <= longest) return;
  throw MisuseError("the name " + quote(name) + " is " + std::to_string(name.size()) +
                    " characters long; at most " + std::to_string(longest) + " are allowed");
}

}  // namespace

TableName TableName::parse(const std::string& text) {
  TableName name;
  const auto dot = text.find('.');
  if (dot != std::string::npos) {
    name.database = text.substr(0, dot);
    check_table_name(name.database);
    check_length(name.database, kLongestDatabase);
  }
  name.table = dot == std::string::npos ? text : text.substr(dot + 1);
  check_table_name(name.table);
  check_length(name.table, kLongestTable);
  return name;
}

std::string TableName::qualified(std::string_view suffix) const {
  const std::string name = quoted_name(suffix.empty() ? table : table + "_" + std::string(suffix));
  return database.empty() ? name : quoted_name(database) + "." + name;
}

std::string quoted_name(std::string_view name) {
  std::string text = "`";
  for (const char c : name) {
    if (c == '`') text.push_back(c);
    text.push_back(c);
  }
  text.push_back('`');
  return text;
}

std::string expand(std::string_view text, const TableName& name) {
  return expand_names(text, [&](std::string_view what) {
    if (what == "table") return name.qualified();
    if (what == "columns") return std::string(kRowColumnNames);
    if (what == "light") return std::string(kLightColumnNames);
    if (what == "record") return std::string(kRecordColumnNames);
    if (what == "now") return std::string(kNow);
    if (what == "by_number") return expand(kByNumber, name);
    if (what == "dead") return expand(kDead, name);
    if (what == "unfinished") return expand(kUnfinished, name);
    if (what == "anywhere") return expand(kAnywhere, name);
    return name.qualified(what);
  });
}

}  // namespace outbox::mysql
