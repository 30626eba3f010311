#include "store/sqlite/session.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "core/quote.h"
#include "outbox/error.h"
#include "store/sqlite/names.h"

namespace outbox::sqlite {
namespace {

constexpr std::size_t kUserStatements = 32;

// The first word, in capitals; blanks and comments skipped.
std::string first_word(std::string_view text) {
  const auto skip_past = [&](std::string_view end) {
    const auto at = text.find(end);
    text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
  };
  const auto is = [](int (*of_kind)(int), char c) {
    return of_kind(static_cast<unsigned char>(c)) != 0;
  };
  while (!text.empty()) {
    if (text.starts_with("--")) {
      skip_past("\n");
    } else if (text.starts_with("/*")) {
      skip_past("*/");
    } else if (is(std::isspace, text.front()) || text.front() == ';') {
      text.remove_prefix(1);
    } else {
      break;
    }
  }
  std::string word;
  for (const char c : text) {
    if (!is(std::isalpha, c)) break;
    word.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  }
  return word;
}

void refuse_transaction_control(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kWords{"BEGIN",    "COMMIT",    "END",
                                                          "ROLLBACK", "SAVEPOINT", "RELEASE"};
  const std::string word = first_word(text);
  if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) {
    throw MisuseError("cannot execute '" + word +
                      "': transactions and savepoints are begun and ended by the calls of that "
                      "name, so that events follow them");
  }
}

}  // namespace

Session::Session(sqlite3* db, EnvironmentPtr environment)
    : db_(db), environment_(std::move(environment)) {}

Statement& Session::operator[](const Sql& sql) {
  if (const auto found = kept_.find(&sql); found != kept_.end()) return found->second;
  Statement prepared(db_, expand(sql.text, environment_->options.table), std::string(sql.purpose),
                     environment_->description);
  return kept_.emplace(&sql, std::move(prepared)).first->second;
}

Statement& Session::user_statement(std::string_view text, std::size_t values) {
  const auto found = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const UserStatement& kept) { return kept.text == text; });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
  } else {
    refuse_transaction_control(text);
    Statement prepared(db_, text, "execute " + quote(text), environment_->description);
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

void bind_values(Run& run, std::span<const Value> values) {
  int index = 0;
  for (const Value& value : values) run.bind_value(++index, value);
}

}  // namespace

std::int64_t Session::execute(std::string_view text, std::span<const Value> values) {
  Run run(user_statement(text, values.size()));
  bind_values(run, values);
  return run.finish();
}

std::vector<ResultRow> Session::query(std::string_view text, std::span<const Value> values) {
  Run run(user_statement(text, values.size()));
  bind_values(run, values);
  std::vector<ResultRow> rows;
  while (run.step()) {
    ResultRow& row = rows.emplace_back();
    row.reserve(static_cast<std::size_t>(run.columns()));
    for (int column = 0; column < run.columns(); ++column) row.push_back(run.value(column));
  }
  return rows;
}

}  // namespace outbox::sqlite
