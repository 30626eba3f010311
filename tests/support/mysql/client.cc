#include <mysql.h>

#include <cstdio>
#include <regex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "support/mysql.h"

namespace outbox::test {
namespace {

using Result = std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)>;

[[noreturn]] void fail(MYSQL* connection, const std::string& doing) {
  throw std::runtime_error(std::string("SQLSTATE ") + mysql_sqlstate(connection) + ", error " +
                           std::to_string(mysql_errno(connection)) + ": " +
                           mysql_error(connection) + "\n" + doing);
}

std::vector<Row> rows_of(MYSQL_RES* result) {
  std::vector<Row> rows;
  const unsigned columns = mysql_num_fields(result);
  while (const MYSQL_ROW values = mysql_fetch_row(result)) {
    const unsigned long* sizes = mysql_fetch_lengths(result);
    Row& row = rows.emplace_back(columns);
    for (unsigned column = 0; column < columns; ++column) {
      if (values[column] != nullptr) row[column].emplace(values[column], sizes[column]);
    }
  }
  return rows;
}

}  // namespace

void Mysql::Close::operator()(MYSQL* connection) const { mysql_close(connection); }

Mysql::Mysql(const std::string& url, std::chrono::seconds timeout)
    : connection_(mysql_init(nullptr)) {
  static const std::regex form("mysql://([^:@/]+)(?::([^@/]*))?@([^:/]+):([0-9]+)/([^?]*)");
  std::smatch parts;
  if (!std::regex_match(url, parts, form)) {
    throw std::runtime_error("not of the form mysql://user[:password]@address:port/database: '" +
                             url + "'");
  }
  const auto part = [&](std::size_t i) { return parts[i].str(); };
  MYSQL* connection = connection_.get();
  mysql_options(connection, MYSQL_SET_CHARSET_NAME, "utf8mb4");
  const auto seconds = static_cast<unsigned>(timeout.count());
  mysql_options(connection, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
  if (mysql_real_connect(connection, part(3).c_str(), part(1).c_str(), part(2).c_str(),
                         part(5).c_str(), static_cast<unsigned>(port_of(url)), nullptr,
                         CLIENT_MULTI_STATEMENTS) == nullptr) {
    fail(connection, "cannot connect to " + url);
  }
  // The test's own statements mean what they say on servers with settings to test against.
  execute(
      "SET SESSION sql_mode = 'STRICT_TRANS_TABLES', sql_safe_updates = 0, autocommit = 1,"
      " completion_type = 0, sql_select_limit = 18446744073709551615,"
      " max_join_size = 18446744073709551615, sql_big_selects = 1, group_concat_max_len = 1048576");
}

void Mysql::execute(const std::string& statements) { query(statements); }

std::vector<Row> Mysql::query(const std::string& statements) {
  MYSQL* connection = connection_.get();
  int status = mysql_real_query(connection, statements.data(), statements.size());
  std::vector<Row> rows;
  while (status == 0) {
    const Result result(mysql_store_result(connection), mysql_free_result);
    if (result == nullptr && mysql_errno(connection) != 0) break;
    rows = result == nullptr ? std::vector<Row>{} : rows_of(result.get());
    status = mysql_next_result(connection);
  }
  if (mysql_errno(connection) != 0) fail(connection, "in: " + statements);
  return rows;
}

std::string Mysql::value(const std::string& statements) {
  return only_value(query(statements), statements);
}

MadeEarlier Mysql::made_earlier(const std::string& table, std::chrono::microseconds by,
                                bool also_what_is_due) {
  const std::string before =
      also_what_is_due ? "0" : "-timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";
  const std::string micros = std::to_string(by.count());
  const std::string interval = "INTERVAL " + micros + " MICROSECOND";
  return {.events = "UPDATE " + table + " SET available_at = available_at - " + interval +
                    ", created_at = created_at - " + interval + ", done_at = done_at - " +
                    interval + ", locked_at = locked_at - " + interval + ", hold = if(hold < " +
                    before + ", hold + " + micros + ", hold)",
          .instances = "UPDATE " + table + "_instance SET beat_at = beat_at - " + interval +
                       ", registered_at = registered_at - " + interval};
}

int waiting_transactions(Mysql& sql) {
  // Those who ask take turns.
  sql.value("SELECT get_lock('outbox tests look for waiters', 60)");
  std::this_thread::sleep_for(std::chrono::milliseconds{110});
  const std::string waiting = sql.value(
      "SELECT count(*) FROM information_schema.innodb_trx JOIN "
      "information_schema.processlist ON id = trx_mysql_thread_id "
      "WHERE trx_state = 'LOCK WAIT' AND db = database()");
  sql.value("SELECT release_lock('outbox tests look for waiters')");
  return std::stoi(waiting);
}

Database::Database(std::string server_url)
    : server_url_(std::move(server_url)), name_(fresh_name()) {
  Mysql(server_url_).execute("CREATE DATABASE " + name_ + " CHARACTER SET utf8mb4");
}

Database::~Database() {
  try {
    Mysql sql(server_url_);
    // A session that still holds a lock in it must not hang the test for ever.
    sql.execute("SET lock_wait_timeout = 10");
    sql.execute("DROP DATABASE " + name_);
  } catch (const std::exception& error) {
    fprintf(stderr, "the database %s stays behind: %s\n", name_.c_str(), error.what());
  }
}

std::string Database::url() const {
  return server_url_.substr(0, server_url_.rfind('/') + 1) + name_;
}

}  // namespace outbox::test
