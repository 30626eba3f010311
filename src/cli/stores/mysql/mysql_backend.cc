#include "cli/stores/mysql/mysql_backend.h"

#include <utility>

#include "base/url_scheme.h"
#include "cli/stores/mysql/examination_sql.h"
#include "cli/stores/mysql/mysql_examination.h"
#include "cli/stores/schema_check.h"
#include "cli/stores/shell_word.h"
#include "client/mysql/connect_options.h"
#include "outbox/mysql.h"
#include "store/mysql/names.h"

namespace outbox::cli {

MysqlBackend::MysqlBackend(std::string url, std::string table)
    : url_(std::move(url)),
      table_(std::move(table)),
      place_(mysql::ConnectOptions(url_).place()),
      public_url_(mysql::ConnectOptions(url_).public_url()) {}

std::string MysqlBackend::description() const {
  return "MySQL database " + place_ + ", table " + table_;
}

std::string MysqlBackend::arguments() const {
  std::string text = "--db " + shell_word(public_url_);
  if (table_ != mysql::Options{}.table) text += " --table " + shell_word(table_);
  return text;
}

SchemaStatus MysqlBackend::schema_status() { return mysql::schema_status(url_, table_); }

SchemaStatus MysqlBackend::migrate() { return mysql::migrate(url_, table_); }

// No server is asked, so it is the scheme that says whose dialect is meant.
std::string MysqlBackend::schema_sql() const {
  const bool mariadb = scheme_of(url_) == "mariadb";
  return mysql::schema_sql(mariadb ? mysql::Server::mariadb : mysql::Server::mysql, table_);
}

std::shared_ptr<Store> MysqlBackend::open() {
  check_schema(*this, schema_status());
  // A proxy may be in between, and a command runs few statements.
  return mysql::open(url_, {.table = table_, .migrate = false, .prepare = false});
}

std::vector<Finding> MysqlBackend::examine(const ExamineOptions& /*options*/) {
  return examine_mysql(url_, table_);
}

RepairSql MysqlBackend::repair_sql() const {
  const auto name = mysql::TableName::parse(table_);
  return {.find = mysql::expand(mysql_sql::kFindBroken, name),
          .fix = mysql::expand(mysql_sql::kFixBroken, name)};
}

}  // namespace outbox::cli
