#include "store/mysql/names.h"

#include "base/sql_text.h"
#include "store/mysql/columns.h"

namespace outbox::mysql {

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
