#include "database.h"

#include <libpq-fe.h>

#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "outbox/error.h"
#include "outbox/postgres.h"
#include "support/postgres.h"

namespace outbox::chaos {
namespace {

struct Close {
  void operator()(PGconn* connection) const { PQfinish(connection); }
};
using Handle = std::unique_ptr<PGconn, Close>;

struct Clear {
  void operator()(PGresult* result) const { PQclear(result); }
};
using ResultHandle = std::unique_ptr<PGresult, Clear>;

// A server that was the primary until now: another one is, to be found by a new connection.
bool is_demoted(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return state != nullptr && std::string_view(state) == "25006";
}

// Deadlocks, serialisation failures, and a server that is going down or coming up.
bool passes(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  if (state == nullptr) return false;
  const std::string_view text = state;
  return text.starts_with("40") || text.starts_with("55") || text.starts_with("57");
}

class PostgresConnection final : public OwnConnection {
 public:
  PostgresConnection(std::string url, Store& store) : url_(std::move(url)), store_(store) {
    reconnect();
  }

  Connection& connection() override { return *external_; }
  void begin() override { execute("BEGIN"); }
  void execute(const std::string& sql) override { static_cast<void>(run(sql)); }

  void commit() override {
    const std::string answer = run("COMMIT");
    if (answer != "COMMIT") throw RetryableError("COMMIT was answered by " + answer);
  }

  void recover() override {
    if (PQstatus(connection_.get()) != CONNECTION_OK || demoted_) return reconnect();
    if (PQtransactionStatus(connection_.get()) == PQTRANS_IDLE) return;
    execute("ROLLBACK");
  }

 private:
  void reconnect() {
    external_.reset();  // it must not outlive the handle
    connection_.reset(PQconnectdb(url_.c_str()));
    if (PQstatus(connection_.get()) != CONNECTION_OK) {
      throw RetryableError(PQerrorMessage(connection_.get()));
    }
    PQsetNoticeProcessor(
        connection_.get(), [](void*, const char*) {}, nullptr);
    external_ = wrap(connection_.get(), store_);
    demoted_ = false;
  }

  // What the server says that it did.
  std::string run(const std::string& sql) {
    const ResultHandle result(PQexec(connection_.get(), sql.c_str()));
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return PQcmdStatus(result.get());
    const std::string what = sql + ": " + PQerrorMessage(connection_.get());
    if (PQstatus(connection_.get()) != CONNECTION_OK) {
      if (sql == "COMMIT") throw OutcomeUnknownError(what);
      throw RetryableError(what);
    }
    demoted_ = is_demoted(result.get());
    if (demoted_ || passes(result.get())) throw RetryableError(what);
    throw std::runtime_error(what);
  }

  const std::string url_;
  Store& store_;
  Handle connection_;
  bool demoted_ = false;
  std::unique_ptr<Connection> external_;
};

class PostgresDatabase final : public Database {
 public:
  PostgresDatabase(std::string url, const Clock* clock) : url_(std::move(url)), clock_(clock) {}

  std::shared_ptr<Store> open() override { return postgres::open(url_, {.clock = clock_}); }
  std::unique_ptr<OwnConnection> connect(Store& store) override {
    return std::make_unique<PostgresConnection>(url_, store);
  }
  std::chrono::milliseconds poll_interval() const override { return std::chrono::minutes{10}; }
  std::vector<std::string> note_registrations() const override {
    return {
        "CREATE FUNCTION note_registration() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO registration VALUES (NEW.owner); RETURN NULL; END'",
        "CREATE TRIGGER note_registration AFTER INSERT ON outbox_event_instance"
        " FOR EACH ROW EXECUTE FUNCTION note_registration()",
    };
  }

 private:
  const std::string url_;
  const Clock* const clock_;
};

class TemporaryPostgresDatabase final : public Database {
 public:
  std::shared_ptr<Store> open() override { return database_.open(); }
  std::unique_ptr<OwnConnection> connect(Store& store) override { return database_.connect(store); }
  std::chrono::milliseconds poll_interval() const override { return database_.poll_interval(); }
  std::vector<std::string> note_registrations() const override {
    return database_.note_registrations();
  }

 private:
  const test::Schema schema_;
  PostgresDatabase database_{test::postgres_url() + "?options=-csearch_path%3D" + schema_.name(),
                             nullptr};
};

}  // namespace

std::unique_ptr<Database> postgres_database(const std::string& url, const Clock* clock) {
  return std::make_unique<PostgresDatabase>(url, clock);
}

std::unique_ptr<Database> temporary_postgres_database() {
  return std::make_unique<TemporaryPostgresDatabase>();
}

}  // namespace outbox::chaos
