#include <libpq-fe.h>

#include <cstdio>
#include <stdexcept>
#include <utility>

#include "support/postgres.h"

namespace outbox::test {
namespace {

using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;

Result run(PGconn* connection, const std::string& statements) {
  Result result(PQexec(connection, statements.c_str()), PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY) {
    return result;
  }
  const char* state = PQresultErrorField(result.get(), PG_DIAG_SQLSTATE);
  throw std::runtime_error(std::string("SQLSTATE ") + (state == nullptr ? "none" : state) + ": " +
                           PQerrorMessage(connection) + "in: " + statements);
}

}  // namespace

void Sql::Close::operator()(pg_conn* connection) const { PQfinish(connection); }

Sql::Sql(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    throw std::runtime_error(std::string("cannot connect: ") + PQerrorMessage(connection_.get()));
  }
  PQsetNoticeProcessor(
      connection_.get(), [](void*, const char*) {}, nullptr);
}

void Sql::execute(const std::string& statements) { run(connection_.get(), statements); }

std::vector<Row> Sql::query(const std::string& statements) {
  const Result result = run(connection_.get(), statements);
  std::vector<Row> rows(static_cast<std::size_t>(PQntuples(result.get())));
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      auto& value = rows[static_cast<std::size_t>(row)].emplace_back();
      if (PQgetisnull(result.get(), row, column) == 0) {
        value.emplace(PQgetvalue(result.get(), row, column),
                      static_cast<std::size_t>(PQgetlength(result.get(), row, column)));
      }
    }
  }
  return rows;
}

std::string Sql::value(const std::string& statements) {
  return only_value(query(statements), statements);
}

MadeEarlier Sql::made_earlier(const std::string& table, std::chrono::microseconds by,
                              bool also_what_is_due, bool by_position) {
  const std::string before =
      also_what_is_due ? "0" : "-(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
  const std::string micros = std::to_string(by.count());
  const std::string interval = "interval '" + micros + " microseconds'";
  const std::string earlier =
      " SET available_at = available_at - " + interval + ", created_at = created_at - " + interval +
      ", done_at = done_at - " + interval + ", locked_at = locked_at - " + interval +
      ", hold = CASE WHEN hold < " + before + " THEN hold + " + micros + " ELSE hold END";
  const std::string copies = by_position ? "; UPDATE " + table + "_delivery" + earlier : "";
  return {.events = "UPDATE " + table + earlier + copies,
          .instances = "UPDATE " + table + "_instance SET beat_at = beat_at - " + interval +
                       ", registered_at = registered_at - " + interval};
}

bool is_waited_for(Sql& onlooker, Sql& holder) {
  return onlooker.value("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE " +
                        std::to_string(PQbackendPID(holder.handle())) +
                        " = ANY (pg_blocking_pids(pid)))") == "t";
}

Schema::Schema(std::string url) : url_(std::move(url)), name_(fresh_name()) {
  Sql(url_).execute("CREATE SCHEMA " + name_);
}

Schema::~Schema() {
  try {
    Sql sql(url_);
    // A session that still holds a lock in it must not hang the test for ever.
    sql.execute("SET lock_timeout = '10s'");
    sql.execute("DROP SCHEMA " + name_ + " CASCADE");
  } catch (const std::exception& error) {
    fprintf(stderr, "the schema %s stays behind: %s\n", name_.c_str(), error.what());
  }
}

}  // namespace outbox::test
