#include "store/postgres/names.h"

#include "base/sql_text.h"
#include "store/postgres/operator_sql.h"
#include "store/postgres/rows.h"

namespace outbox::postgres {

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
