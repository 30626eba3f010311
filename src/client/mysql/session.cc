#include "client/mysql/session.h"

#include <errmsg.h>

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "base/sql_text.h"
#include "outbox/error.h"

namespace outbox::mysql {
namespace {

// How many statements of the user's stay prepared.
constexpr std::size_t kUserStatements = 16;

// libmariadb says so on some servers only, and reads past the values otherwise.
const Failure& wrong_number_of_values() {
  static const Failure failure{CR_INVALID_PARAMETER_NO, "HY000", "Wrong number of values"};
  return failure;
}

}  // namespace

Session::Session(MYSQL* connection, std::shared_ptr<const SqlContext> context,
                 std::size_t max_packet, Prepare prepare)
    : connection_(connection),
      context_(std::move(context)),
      max_packet_(max_packet),
      prepare_(context_->may_prepare() ? prepare : Prepare::never) {}

bool Session::broken() const {
  return last_failure_.lost_connection() || last_failure_.not_ready() ||
         mysql_get_socket(connection_) == MARIADB_INVALID_SOCKET;
}

bool Session::in_transaction() const {
  unsigned status = 0;
  mariadb_get_infov(connection_, MARIADB_CONNECTION_SERVER_STATUS, &status);
  return (status & SERVER_STATUS_IN_TRANS) != 0;
}

void Session::fail(const Failure& failure, std::string_view purpose) {
  last_failure_ = failure;
  if (failure.lost_statements()) {
    // A pooler that threw them away will do so again: this connection goes on without any.
    prepare_ = Prepare::never;
    kept_.clear();
    recent_.clear();
  }
  // Also what users run may be about the library's tables: so do the patterns.
  const bool on_ours = whose_ == Whose::users && context_->is_about_own_tables(failure.text);
  throw_failure(last_failure_, purpose, context_->where(),
                on_ours ? Whose::users_on_our_tables : whose_);
}

void Session::check_size(std::size_t bytes, std::string_view purpose) const {
  constexpr std::size_t kHeader = 64;  // of the message, at most
  if (bytes + kHeader <= max_packet_) return;
  throw MisuseError("cannot " + std::string(purpose) + " (" + context_->where() +
                    "): the statement has " + std::to_string(bytes) +
                    " bytes, and the server takes " + std::to_string(max_packet_) +
                    "; raise max_allowed_packet on the server, or send less at once");
}

Session::Kept& Session::kept(const Sql& sql) {
  const auto [found, added] = kept_.try_emplace(&sql);
  if (added) found->second.text = context_->expand(sql.text);
  return found->second;
}

StatementHandle Session::new_statement(std::string_view purpose) {
  StatementHandle statement(mysql_stmt_init(connection_));
  if (!statement) fail(Failure::of(connection_), purpose);
  const my_bool yes = 1;
  mysql_stmt_attr_set(statement.get(), STMT_ATTR_UPDATE_MAX_LENGTH, &yes);
  return statement;
}

// Null if it is to be sent as text.
MYSQL_STMT* Session::prepared(Kept& statement, const Sql& sql) {
  if (statement.handle || prepare_ == Prepare::never || !sql.prepare) {
    return statement.handle.get();
  }
  StatementHandle handle = new_statement(sql.purpose);
  if (mysql_stmt_prepare(handle.get(), statement.text.data(), statement.text.size()) != 0) {
    fail(Failure::of(handle.get()), sql.purpose);
  }
  statement.handle = std::move(handle);
  return statement.handle.get();
}

// Reads all that the statement returned. A procedure also returns how it ended.
Result Session::finish(MYSQL_STMT* statement, std::string_view purpose) {
  const bool has_rows = mysql_stmt_field_count(statement) > 0;
  if (has_rows && mysql_stmt_store_result(statement) != 0) fail(Failure::of(statement), purpose);
  Result result(statement, names());
  mysql_stmt_free_result(statement);
  while (mysql_stmt_more_results(statement) != 0) {
    if (mysql_stmt_next_result(statement) > 0) fail(Failure::of(statement), purpose);
    mysql_stmt_free_result(statement);
  }
  return result;
}

Result Session::run(const Sql& sql, const Parameters& parameters) {
  Kept& statement = kept(sql);
  MYSQL_STMT* handle = prepared(statement, sql);
  if (handle == nullptr) return run_text(parameters.into(statement.text), sql.purpose);
  return run(handle, parameters, sql.purpose);
}

Result Session::run(MYSQL_STMT* statement, const Parameters& parameters, std::string_view purpose) {
  if (mysql_stmt_param_count(statement) != parameters.size()) {
    fail(wrong_number_of_values(), purpose);
  }
  check_size(parameters.bytes(), purpose);
  Parameters::Binds binds = parameters.binds();
  if (mysql_stmt_bind_param(statement, binds.data()) != 0 || mysql_stmt_execute(statement) != 0) {
    fail(Failure::of(statement), purpose);
  }
  return finish(statement, purpose);
}

Result Session::run(const Built& statement) {
  return run_text(statement.text(), statement.purpose());
}

Result Session::run_text(std::string_view text, std::string_view purpose) {
  check_size(text.size(), purpose);
  if (mysql_real_query(connection_, text.data(), text.size()) != 0) {
    fail(Failure::of(connection_), purpose);
  }
  const ResultHandle rows(mysql_store_result(connection_));
  if (!rows && mysql_errno(connection_) != 0) fail(Failure::of(connection_), purpose);
  Result result(connection_, rows.get(), names());
  while (mysql_more_results(connection_) != 0) {
    if (mysql_next_result(connection_) > 0) fail(Failure::of(connection_), purpose);
    const ResultHandle ignored(mysql_store_result(connection_));
  }
  return result;
}

bool Session::try_text(std::string_view text) noexcept {
  try {
    run_text(text, text);
    return true;
  } catch (...) {
    return false;
  }
}

void Session::undo(std::string_view text) noexcept {
  if (broken()) return;
  Failure first = std::exchange(last_failure_, {});
  try_text(text);
  if (!last_failure_.lost_connection()) last_failure_ = std::move(first);
}

std::int64_t Session::auto_increment_step() {
  if (auto_increment_step_ == 0) {
    auto_increment_step_ =
        run_text("SELECT @@auto_increment_increment LIMIT 1", "read how rows are numbered")
            .integer(0, 0);
  }
  return auto_increment_step_;
}

bool Session::shows_commits_early() {
  if (!shows_commits_early_) {
    // TiDB has these settings too, without their meaning: it shows what is replicated.
    const std::string_view version = mysql_get_server_info(connection_);
    if (version.find("TiDB") != std::string_view::npos) {
      shows_commits_early_ = false;
    } else {
      constexpr std::string_view kPurpose = "read when commits are shown";
      const Result settings =
          run_text("SELECT @@log_bin, @@innodb_flush_log_at_trx_commit LIMIT 1", kPurpose);
      // 3 is MariaDB's, and flushes as 1 does.
      const bool flushes = settings.integer(0, 1) == 1 || settings.integer(0, 1) == 3;
      // In a Galera cluster a commit is on the other nodes before it is shown, and a write
      // after every look would be replicated to all of them.
      const bool is_node =
          run_text("SHOW VARIABLES WHERE Variable_name = 'wsrep_on' AND Value = 'ON'", kPurpose)
              .rows() > 0;
      shows_commits_early_ = settings.integer(0, 0) == 0 && flushes && !is_node;
    }
  }
  return *shows_commits_early_;
}

// The server takes the texts of a connection of the user's own for what its character set
// says, and turns them into that of the connection; ours are UTF-8. What would become
// others is refused: an INSERT IGNORE would not say so, and take two ids for one.
void Session::check_character_set(std::span<const Parameter> values) {
  const auto has_byte_from = [&](unsigned char least) {
    return std::any_of(values.begin(), values.end(), [&](const Parameter& value) {
      const auto* text = std::get_if<std::string_view>(&value.held());
      return text != nullptr && std::any_of(text->begin(), text->end(), [&](char c) {
               return static_cast<unsigned char>(c) >= least;
             });
    });
  };
  constexpr unsigned char kNotAscii = 0x80;
  constexpr unsigned char kOfFourBytes = 0xF0;
  if (!has_byte_from(kNotAscii)) return;
  const Result sets = run_text("SELECT @@character_set_client, @@character_set_connection LIMIT 1",
                               "read the character set of the connection");
  const bool short_ones = !has_byte_from(kOfFourBytes);
  for (const int column : {0, 1}) {
    const std::string_view set = sets.text(0, column);
    if (set == "utf8mb4" || (short_ones && set.starts_with("utf8"))) continue;
    throw MisuseError("the character set of the connection (" + context_->where() + ") is " +
                      std::string(set) + ", and a value has characters that " +
                      (short_ones ? "are not ASCII" : "take four bytes") +
                      ": run SET NAMES utf8mb4");
  }
}

Result Session::run_user_statement(std::string_view text, std::span<const Parameter> values) {
  const AsUsers users(whose_);
  refuse_transaction_control(text);
  const std::string purpose = "execute " + quote(text);
  if (first_word(text) == "USE") forget_user_statements();
  // Some statements cannot be prepared, and those without values need not be.
  if (values.empty()) return run_text(text, purpose);
  if (prepare_ == Prepare::never) check_character_set(values);
  const Parameters parameters = Parameters::of(values);
  const auto known = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const UserStatement& each) { return each.text == text; });
  if (known != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, known);
    return run(known->handle.get(), parameters, purpose);
  }
  check_size(text.size() + parameters.bytes(), purpose);
  StatementHandle statement = new_statement(purpose);
  // In one round trip where the server can.
  const auto count = static_cast<unsigned>(parameters.size());
  Parameters::Binds binds = parameters.binds();
  if (mysql_stmt_attr_set(statement.get(), STMT_ATTR_PREBIND_PARAMS, &count) != 0 ||
      mysql_stmt_bind_param(statement.get(), binds.data()) != 0 ||
      mariadb_stmt_execute_direct(statement.get(), text.data(), text.size()) != 0) {
    const Failure failure = Failure::of(statement.get());
    fail(failure.number == 0 ? wrong_number_of_values() : failure, purpose);
  }
  const bool has_result = mysql_stmt_field_count(statement.get()) > 0;
  Result result = finish(statement.get(), purpose);
  if (prepare_ != Prepare::never && !has_result) {
    recent_.push_front({std::string(text), std::move(statement)});
    if (recent_.size() > kUserStatements) recent_.pop_back();
  }
  return result;
}

std::int64_t Session::execute(std::string_view text, std::span<const Parameter> values) {
  return run_user_statement(text, values).changed();
}

std::vector<ResultRow> Session::query(std::string_view text, std::span<const Parameter> values) {
  const Result result = run_user_statement(text, values);
  std::vector<ResultRow> rows;
  if (result.rows() == 0) return rows;
  rows.reserve(static_cast<std::size_t>(result.rows()));
  const auto names = std::make_shared<const ResultRow::Columns>(result.names());
  for (int number = 0; number < result.rows(); ++number) {
    std::vector<Value> row;
    row.reserve(result.columns());
    for (int column = 0; column < static_cast<int>(result.columns()); ++column) {
      row.push_back(result.value(number, column));
    }
    rows.emplace_back(names, std::move(row));
  }
  return rows;
}

void Session::abandon() noexcept {
  for (auto& [sql, statement] : kept_) static_cast<void>(statement.handle.release());
  kept_.clear();
  for (UserStatement& statement : recent_) static_cast<void>(statement.handle.release());
  recent_.clear();
}

}  // namespace outbox::mysql
