// What tests do on a MariaDB or MySQL server besides what they test; the twin of
// postgres.h.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "support/rows.h"
#include "support/services.h"

struct st_mysql;  // libmariadb's MYSQL

namespace outbox::test {

// A connection, in the plainest way. Errors are std::runtime_error with the
// server's message, its number and its SQLSTATE. Not thread-safe.
class Mysql {
 public:
  // Of the form mysql://user[:password]@address:port/database, as they are: nothing
  // is decoded. A server that takes connections and says nothing is given up after that time.
  explicit Mysql(const std::string& url = mysql_url(),
                 std::chrono::seconds timeout = std::chrono::seconds{60});

  // One or several statements.
  void execute(const std::string& statements);

  // The rows of the last statement, as text.
  std::vector<Row> query(const std::string& statements);

  // The only value of the only row; throws if it is anything else, or NULL.
  std::string value(const std::string& statements);

  static MadeEarlier made_earlier(const std::string& table, std::chrono::microseconds by,
                                  bool also_what_is_due = true);

  st_mysql* handle() const { return connection_.get(); }

 private:
  struct Close {
    void operator()(st_mysql* connection) const;
  };
  std::unique_ptr<st_mysql, Close> connection_;
};

// How many transactions wait for a lock in the database of the connection. Takes a tenth of a
// second: the server looks again only when nobody asked for as long.
int waiting_transactions(Mysql& sql);

// An empty database with a name of its own, so that tests that run side by side
// share nothing but the server. Dropped with all that is in it.
class Database {
 public:
  explicit Database(std::string server_url = mysql_url());
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& name() const { return name_; }

  // For connections that work in it.
  std::string url() const;

 private:
  std::string server_url_;
  std::string name_;
};

}  // namespace outbox::test
