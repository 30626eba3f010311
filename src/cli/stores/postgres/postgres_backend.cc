#include "cli/stores/postgres/postgres_backend.h"

#include <utility>

#include "cli/stores/postgres/examination_sql.h"
#include "cli/stores/postgres/postgres_examination.h"
#include "cli/stores/schema_check.h"
#include "cli/stores/shell_word.h"
#include "client/postgres/connect_options.h"
#include "outbox/postgres.h"
#include "store/postgres/names.h"

namespace outbox::cli {

PostgresBackend::PostgresBackend(std::string url, std::string table)
    : url_(std::move(url)),
      table_(std::move(table)),
      place_(postgres::ConnectOptions(url_).place()),
      public_url_(postgres::ConnectOptions(url_).public_url()) {}

std::string PostgresBackend::description() const {
  return "PostgreSQL database " + place_ + ", table " + table_;
}

std::string PostgresBackend::arguments() const {
  std::string text = "--db " + shell_word(public_url_);
  if (table_ != postgres::Options{}.table) text += " --table " + shell_word(table_);
  return text;
}

SchemaStatus PostgresBackend::schema_status() { return postgres::schema_status(url_, table_); }

SchemaStatus PostgresBackend::migrate() { return postgres::migrate(url_, table_); }

std::string PostgresBackend::schema_sql() const { return postgres::schema_sql(table_); }

std::shared_ptr<Store> PostgresBackend::open() {
  check_schema(*this, schema_status());
  // A pooler may be in between, and a command runs few statements.
  return postgres::open(url_, {.table = table_, .migrate = false, .prepare = false});
}

std::vector<Finding> PostgresBackend::examine(const ExamineOptions& /*options*/) {
  return examine_postgres(url_, table_);
}

RepairSql PostgresBackend::repair_sql() const {
  const auto name = postgres::TableName::parse(table_);
  return {.find = postgres::expand(postgres_sql::kFindBroken, name),
          .fix = postgres::expand(postgres_sql::kFixBroken, name)};
}

}  // namespace outbox::cli
