// libmariadb with as little as possible around it.
#pragma once

#include <string>
#include <string_view>

#include "client/mysql/libmariadb.h"
#include "client/mysql/statement.h"
#include "store/mysql/store_config.h"
#include "subject.h"

namespace outbox::bench {

// Fills in `{table}` and the like, as in the library's own statements.
std::string expanded(std::string_view sql);

// A connection with the settings of the library's own for the same use. Used by one
// thread at a time. Throws std::runtime_error for whatever fails.
class BareMysql final : public BareConnection {
 public:
  explicit BareMysql(const std::string& url, mysql::Use use = mysql::Use::engine);

  // One statement without parameters; its rows as text, null if it has none.
  mysql::ResultHandle query(std::string_view sql) const;
  void exec(const std::string& sql) const override { query(sql); }

  // One that returns no rows; as expanded() makes it.
  mysql::StatementHandle prepare(std::string_view sql) const;
  static void run(MYSQL_STMT* statement, const mysql::Parameters& values);

 private:
  mysql::ConnectionHandle connection_;
};

}  // namespace outbox::bench
