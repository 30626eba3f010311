#include "client/sqlite/session.h"

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "base/sql_text.h"
#include "outbox/error.h"

namespace outbox::sqlite {
namespace {

constexpr std::size_t kUserStatements = 32;

}  // namespace

Session::Session(sqlite3* db, std::shared_ptr<const SqlContext> context)
    : db_(db), context_(std::move(context)) {}

Statement& Session::operator[](const Sql& sql) {
  if (const auto found = kept_.find(&sql); found != kept_.end()) return found->second;
  Statement prepared(db_, context_->expand(sql.text), std::string(sql.purpose), context_->where());
  return kept_.emplace(&sql, std::move(prepared)).first->second;
}

Statement& Session::user_statement(std::string_view text, std::size_t values) {
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const UserStatement& kept) { return kept.text == text; });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
  } else {
    refuse_transaction_control(text);
    Statement prepared(db_, text, "execute " + quote(text), context_->where(), context_.get());
    recent_.push_front({std::string(text), std::move(prepared)});
    if (recent_.size() > kUserStatements) recent_.pop_back();
  }
  Statement& statement = recent_.front().statement;
  if (static_cast<std::size_t>(statement.parameters()) != values) {
    throw MisuseError("cannot execute " + quote(text) + ": it takes " +
                      std::to_string(statement.parameters()) + " values and was given " +
                      std::to_string(values));
  }
  return statement;
}

namespace {

void bind_values(Run& run, std::span<const Parameter> values) {
  int index = 0;
  for (const Parameter& value : values) run.bind_value(++index, value);
}

}  // namespace

std::int64_t Session::execute(std::string_view text, std::span<const Parameter> values) {
  Run run(user_statement(text, values.size()));
  bind_values(run, values);
  return run.finish();
}

std::vector<ResultRow> Session::query(std::string_view text, std::span<const Parameter> values) {
  Run run(user_statement(text, values.size()));
  bind_values(run, values);
  std::vector<ResultRow> rows;
  std::shared_ptr<const ResultRow::Columns> columns;
  while (run.step()) {
    if (!columns) columns = std::make_shared<const ResultRow::Columns>(run.column_names());
    std::vector<Value> row;
    row.reserve(columns->size());
    for (int column = 0; column < run.columns(); ++column) row.push_back(run.value(column));
    rows.emplace_back(columns, std::move(row));
  }
  return rows;
}

}  // namespace outbox::sqlite
