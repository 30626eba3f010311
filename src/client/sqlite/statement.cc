#include "client/sqlite/statement.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/quote.h"
#include "base/sql_text.h"
#include "outbox/error.h"

namespace outbox::sqlite {
namespace {

// A null pointer would be bound as NULL, not as empty.
const char* not_null(std::string_view text) { return text.data() == nullptr ? "" : text.data(); }

}  // namespace

Statement::Statement(sqlite3* db, std::string_view text, std::string purpose,
                     const std::string& where, const SqlContext* users)
    : db_(db), purpose_(std::move(purpose)), where_(&where), users_(users) {
  const char* const end = text.data() + text.size();
  const char* tail = text.data();
  const auto prepare_next = [&] {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v3(db, tail, static_cast<int>(end - tail),
                                        SQLITE_PREPARE_PERSISTENT, &statement, &tail);
    StatementHandle prepared(statement);
    if (code != SQLITE_OK) fail(whose());
    return prepared;
  };

  handle_ = prepare_next();
  if (!handle_) {
    throw MisuseError("cannot " + purpose_ + " (" + where + "): the text holds no statement");
  }
  // Blanks and comments behind the statement are no statement.
  while (tail < end) {
    if (prepare_next()) {
      throw MisuseError("cannot " + purpose_ + " (" + where +
                        "): the text holds more than one statement; run them one by one");
    }
  }
}

Whose Statement::whose() const {
  if (users_ == nullptr) return Whose::ours;
  return users_->is_about_own_tables(sqlite3_errmsg(db_)) ? Whose::users_on_our_tables
                                                          : Whose::users;
}

void Statement::fail(Whose whose) const {
  // A user's own connection may not report extended codes by itself.
  throw_failure(db_, sqlite3_extended_errcode(db_), purpose_, *where_, whose);
}

void Run::check_bind(int code) {
  if (code != SQLITE_OK) fail();
}

void Run::bind(int index, std::nullptr_t) { check_bind(sqlite3_bind_null(handle(), index)); }

void Run::bind(int index, std::int64_t value) {
  check_bind(sqlite3_bind_int64(handle(), index, value));
}

void Run::bind(int index, double value) { check_bind(sqlite3_bind_double(handle(), index, value)); }

void Run::bind(int index, std::string_view text) {
  check_bind(sqlite3_bind_text64(handle(), index, not_null(text), text.size(), SQLITE_STATIC,
                                 SQLITE_UTF8));
}

void Run::bind(int index, Bytes bytes) {
  check_bind(
      sqlite3_bind_blob64(handle(), index, not_null(bytes.data), bytes.data.size(), SQLITE_STATIC));
}

void Run::bind_value(int index, const Parameter& value) {
  std::visit(
      [&](const auto& held) {
        using T = std::remove_cvref_t<decltype(held)>;
        if constexpr (std::is_same_v<T, Parameter::Bytes>) {
          bind(index, Bytes{as_text(held)});
        } else {
          bind(index, held);
        }
      },
      value.held());
}

bool Run::step() {
  const int code = try_step();
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) fail();
  return false;
}

std::int64_t Run::finish() {
  // sqlite3_changes() still tells of the statement before if this one changes
  // no rows by its nature (CREATE TABLE and its likes).
  const std::int64_t before = sqlite3_total_changes64(statement_.db_);
  while (step()) {
  }
  return sqlite3_total_changes64(statement_.db_) == before ? 0 : sqlite3_changes64(statement_.db_);
}

std::string_view Run::text(int column) const {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(handle(), column));
  if (text == nullptr) return {};
  return {text, static_cast<std::size_t>(sqlite3_column_bytes(handle(), column))};
}

std::string_view Run::bytes(int column) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(handle(), column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(handle(), column))};
}

std::vector<std::string> Run::column_names() const {
  std::vector<std::string> names;
  for (int column = 0; column < columns(); ++column) {
    const char* name = sqlite3_column_name(handle(), column);
    names.emplace_back(name == nullptr ? "" : name);
  }
  return names;
}

Value Run::value(int column) const {
  switch (type(column)) {
    case SQLITE_INTEGER:
      return integer(column);
    case SQLITE_FLOAT:
      return sqlite3_column_double(handle(), column);
    case SQLITE_TEXT:
      return std::string(text(column));
    case SQLITE_BLOB:
      return Blob{std::string(bytes(column))};
    default:
      return nullptr;
  }
}

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
    constexpr std::size_t kUserStatements = 32;
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
