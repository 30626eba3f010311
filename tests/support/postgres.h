// What tests do on a PostgreSQL server besides what they test.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "support/rows.h"
#include "support/services.h"

struct pg_conn;  // libpq's PGconn

namespace outbox::test {

// A connection, in the plainest way. Errors are std::runtime_error with the
// server's message and its SQLSTATE. Not thread-safe.
class Sql {
 public:
  explicit Sql(const std::string& url = postgres_url());

  // One or several statements.
  void execute(const std::string& statements);

  // The rows of the last statement, as text.
  std::vector<Row> query(const std::string& statements);

  // The only value of the only row; throws if it is anything else, or NULL.
  std::string value(const std::string& statements);

  // `by_position`: how the table keeps progress.
  static MadeEarlier made_earlier(const std::string& table, std::chrono::microseconds by,
                                  bool also_what_is_due = true, bool by_position = false);

  pg_conn* handle() const { return connection_.get(); }

 private:
  struct Close {
    void operator()(pg_conn* connection) const;
  };
  std::unique_ptr<pg_conn, Close> connection_;
};

// Whether somebody waits for a lock that `holder` has.
bool is_waited_for(Sql& onlooker, Sql& holder);

// An empty schema with a name of its own, so that tests that run side by side
// share nothing but the server. Dropped with all that is in it.
class Schema {
 public:
  explicit Schema(std::string url = postgres_url());
  ~Schema();
  Schema(const Schema&) = delete;
  Schema& operator=(const Schema&) = delete;

  const std::string& name() const { return name_; }

 private:
  std::string url_;
  std::string name_;
};

}  // namespace outbox::test
