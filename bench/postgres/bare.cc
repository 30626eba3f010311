#include "postgres/bare.h"

#include <stdexcept>

#include "client/postgres/settings.h"
#include "store/postgres/sql.h"
#include "store/postgres/store_config.h"

namespace outbox::bench {

BarePostgres::BarePostgres(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    throw std::runtime_error(PQerrorMessage(connection_.get()));
  }
  PQsetNoticeProcessor(
      connection_.get(), [](void*, const char*) {}, nullptr);
}

postgres::ResultHandle BarePostgres::checked(PGresult* result, std::string_view what) const {
  postgres::ResultHandle handle(result);
  const ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    throw std::runtime_error(std::string(what) + ": " + PQerrorMessage(connection_.get()));
  }
  return handle;
}

postgres::ResultHandle BarePostgres::query(const std::string& sql) const {
  return checked(PQexec(connection_.get(), sql.c_str()), sql);
}

void BarePostgres::prepare(const std::string& name, std::string_view sql,
                           const postgres::Parameters& types) const {
  const std::string text = postgres::expand(sql, postgres::TableName::parse(kTable));
  checked(PQprepare(connection_.get(), name.c_str(), text.c_str(), types.size(), types.types()),
          text);
}

postgres::Result BarePostgres::run(const std::string& name,
                                   const postgres::Parameters& values) const {
  constexpr int kBinary = 1;
  const postgres::Parameters::Arrays arrays = values.arrays();
  return postgres::Result(
      checked(PQexecPrepared(connection_.get(), name.c_str(), values.size(), arrays.values.data(),
                             arrays.lengths.data(), arrays.formats.data(), kBinary),
              name));
}

void BarePostgres::go_by_index_alone() const {
  exec(postgres::session_settings(postgres::Use::engine, PQserverVersion(connection_.get()), {},
                                  true));
}

}  // namespace outbox::bench
