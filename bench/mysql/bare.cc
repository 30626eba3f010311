#include "mysql/bare.h"

#include <stdexcept>

#include "store/mysql/store_config.h"

namespace outbox::bench {

std::string expanded(std::string_view sql) {
  return mysql::expand(sql, mysql::TableName::parse(kTable));
}

BareMysql::BareMysql(const std::string& url, mysql::Use use)
    : connection_(mysql::StoreConfig(url).connect(use).handle) {}

mysql::ResultHandle BareMysql::query(std::string_view sql) const {
  MYSQL* connection = connection_.get();
  const bool sent = mysql_real_query(connection, sql.data(), sql.size()) == 0;
  mysql::ResultHandle rows(sent ? mysql_store_result(connection) : nullptr);
  if (mysql_errno(connection) != 0) {
    throw std::runtime_error(std::string(sql) + ": " + mysql_error(connection));
  }
  return rows;
}

mysql::StatementHandle BareMysql::prepare(std::string_view sql) const {
  const std::string text = expanded(sql);
  mysql::StatementHandle statement(mysql_stmt_init(connection_.get()));
  if (!statement || mysql_stmt_prepare(statement.get(), text.data(), text.size()) != 0) {
    throw std::runtime_error(text + ": " + mysql_error(connection_.get()));
  }
  return statement;
}

void BareMysql::run(MYSQL_STMT* statement, const mysql::Parameters& values) {
  mysql::Parameters::Binds binds = values.binds();
  if (mysql_stmt_bind_param(statement, binds.data()) != 0 || mysql_stmt_execute(statement) != 0) {
    throw std::runtime_error(mysql_stmt_error(statement));
  }
}

}  // namespace outbox::bench
