// libpq with as little as possible around it.
#pragma once

#include <string>
#include <string_view>

#include "client/postgres/libpq.h"
#include "client/postgres/statement.h"
#include "subject.h"

namespace outbox::bench {

// A connection. Used by one thread at a time. Throws std::runtime_error for
// whatever fails.
class BarePostgres final : public BareConnection {
 public:
  explicit BarePostgres(const std::string& url);

  // One or several statements without parameters; the last result, as text.
  postgres::ResultHandle query(const std::string& sql) const;
  void exec(const std::string& sql) const override { query(sql); }

  // `{table}` and the like as in the library's own statements.
  void prepare(const std::string& name, std::string_view sql,
               const postgres::Parameters& types) const;
  postgres::Result run(const std::string& name, const postgres::Parameters& values) const;

  // What the engine's own connections are set to.
  void go_by_index_alone() const;

 private:
  postgres::ResultHandle checked(PGresult* result, std::string_view what) const;

  postgres::ConnectionHandle connection_;
};

}  // namespace outbox::bench
