#include "store/postgres/names.h"

#include "base/quote.h"
#include "base/sql_text.h"
#include "outbox/error.h"
#include "store/postgres/operator_sql.h"
#include "store/postgres/rows.h"

namespace outbox::postgres {
namespace {

// The server cuts names at 63 characters; the longest suffix is `_archive_id`.
constexpr std::size_t kLongestTable = 48;
constexpr std::size_t kLongestSchema = 63;

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
    name.schema = text.substr(0, dot);
    check_table_name(name.schema);
    check_length(name.schema, kLongestSchema);
  }
  name.table = dot == std::string::npos ? text : text.substr(dot + 1);
  check_table_name(name.table);
  check_length(name.table, kLongestTable);
  return name;
}

std::string TableName::unqualified(std::string_view suffix) const {
  return quoted_name(suffix.empty() ? table : table + "_" + std::string(suffix));
}

std::string TableName::qualified(std::string_view suffix) const {
  return schema.empty() ? unqualified(suffix) : quoted_name(schema) + "." + unqualified(suffix);
}

std::string expand(std::string_view text, const TableName& name) {
  constexpr std::string_view kIndex = "index ";
  return expand_names(text, [&](std::string_view what) {
    if (what == "table") return name.qualified();
    if (what == "columns") return std::string(kRowColumnNames);
    if (what == "light") return std::string(kLightColumnNames);
    if (what == "record") return expand(kRecordColumnNames, name);
    if (what == "filter") return std::string(sql::kFilter);
    if (what.starts_with(kIndex)) return name.unqualified(what.substr(kIndex.size()));
    return name.qualified(what);
  });
}

}  // namespace outbox::postgres
