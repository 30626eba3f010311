#include <string>
#include <utility>
#include <vector>

#include "mysql/bare.h"
#include "mysql/parts.h"

namespace outbox::bench {
namespace {

// With the columns that can be written, separated by commas.
using Tables = std::vector<std::pair<std::string, std::string>>;

Tables tables_in(const BareMysql& bare) {
  const auto rows = bare.query(
      "SELECT table_name, group_concat(column_name) FROM information_schema.columns "
      "WHERE table_schema = database() AND coalesce(generation_expression, '') = '' "
      "GROUP BY table_name");
  Tables tables;
  while (const char* const* row = mysql_fetch_row(rows.get())) tables.emplace_back(row[0], row[1]);
  return tables;
}

void copy_table(const BareMysql& bare, const std::string& original, const std::string& name,
                const std::string& columns) {
  const std::string source = original + "." + name;
  bare.exec("CREATE TABLE " + name + " LIKE " + source);
  bare.exec("INSERT INTO " + name + " (" + columns + ") SELECT " + columns + " FROM " + source);
}

// What was written to the tables reaches the disk.
void write_out(const BareMysql& bare, const Tables& tables) {
  std::string names;
  for (const auto& [name, columns] : tables) names.append(names.empty() ? "" : ", ").append(name);
  bare.exec("FLUSH TABLES " + names + " FOR EXPORT");
  bare.exec("UNLOCK TABLES");
}

}  // namespace

void copy_mysql(const std::string& from, const std::string& to) {
  const BareMysql bare(to);
  const std::string original = from.substr(from.rfind('/') + 1);
  const Tables tables = tables_in(BareMysql(from));
  for (const auto& [name, columns] : tables) copy_table(bare, original, name, columns);
  write_out(bare, tables);
}

void tidy_up_mysql(const std::string& url) {
  const BareMysql bare(url);
  bare.exec("ANALYZE TABLE " + std::string(kTable));
  write_out(bare, tables_in(bare));
}

}  // namespace outbox::bench
