#include "database.h"

#include <sqlite3.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "outbox/error.h"
#include "support/temporary_directory.h"
#ifdef OUTBOX_WITH_POSTGRES
#include <libpq-fe.h>

#include <string_view>

#include "outbox/postgres.h"
#include "support/postgres.h"
#endif
#ifdef OUTBOX_WITH_MYSQL
#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>

#include <algorithm>
#include <optional>

#include "outbox/mysql.h"
#include "support/mysql.h"
#endif

namespace outbox::chaos {
namespace {

using namespace std::chrono_literals;

// What makes one kind of database another one than the others.
struct Kind {
  std::function<std::shared_ptr<Store>()> open;
  std::function<std::unique_ptr<OwnConnection>(Store&)> connect;
  std::chrono::milliseconds poll_interval;
  std::vector<std::string> note_registrations{};
};

class AnyDatabase final : public Database {
 public:
  // `place` goes with it: what was made for one test alone.
  AnyDatabase(Kind kind, std::shared_ptr<const void> place)
      : place_(std::move(place)), kind_(std::move(kind)) {}

  std::shared_ptr<Store> open() override { return kind_.open(); }
  std::unique_ptr<OwnConnection> connect(Store& store) override { return kind_.connect(store); }
  std::chrono::milliseconds poll_interval() const override { return kind_.poll_interval; }
  std::vector<std::string> note_registrations() const override { return kind_.note_registrations; }

 private:
  const std::shared_ptr<const void> place_;
  const Kind kind_;
};

// --- SQLite ---

constexpr int kBusyTimeoutMs = 10'000;

struct CloseFile {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using File = std::unique_ptr<sqlite3, CloseFile>;

File open_file(const std::string& path) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr);
  File handle(db);
  if (code != SQLITE_OK) throw std::runtime_error("cannot open " + path);
  sqlite3_busy_timeout(db, kBusyTimeoutMs);
  return handle;
}

class SqliteConnection final : public OwnConnection {
 public:
  SqliteConnection(const std::string& path, Store& store)
      : db_(open_file(path)), external_(wrap(db_.get(), store)) {}

  Connection& connection() override { return *external_; }
  void begin() override { execute("BEGIN IMMEDIATE"); }
  void commit() override { execute("COMMIT"); }

  void execute(const std::string& sql) override {
    const int code = sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return;
    const std::string what = sql + ": " + sqlite3_errmsg(db_.get());
    if ((code & 0xff) == SQLITE_BUSY) throw RetryableError(what);
    throw std::runtime_error(what);
  }

  void recover() override {
    if (sqlite3_get_autocommit(db_.get()) == 0) {
      sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
  }

 private:
  const File db_;
  std::unique_ptr<Connection> external_;  // goes before the handle
};

std::unique_ptr<Database> sqlite_database_in(const std::string& path, sqlite::Durability durability,
                                             std::shared_ptr<const void> place) {
  return std::make_unique<AnyDatabase>(
      Kind{.open = [=] { return sqlite::open(path, {.durability = durability}); },
           .connect = [=](Store& store) { return std::make_unique<SqliteConnection>(path, store); },
           .poll_interval = 1s},
      std::move(place));
}

// --- PostgreSQL ---

#ifdef OUTBOX_WITH_POSTGRES
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

std::unique_ptr<Database> postgres_database_in(const std::string& url, const Clock* clock,
                                               std::optional<Progress> progress,
                                               std::shared_ptr<const void> place) {
  return std::make_unique<AnyDatabase>(
      Kind{
          .open = [=] { return postgres::open(url, {.progress = progress, .clock = clock}); },
          .connect = [=](Store& store) { return std::make_unique<PostgresConnection>(url, store); },
          .poll_interval = 10min,
          .note_registrations =
              {"CREATE FUNCTION note_registration() RETURNS trigger LANGUAGE plpgsql AS"
               " 'BEGIN INSERT INTO registration VALUES (NEW.owner); RETURN NULL; END'",
               "CREATE TRIGGER note_registration AFTER INSERT ON outbox_event_instance"
               " FOR EACH ROW EXECUTE FUNCTION note_registration()"}},
      std::move(place));
}
#endif

// --- MariaDB and MySQL ---

#ifdef OUTBOX_WITH_MYSQL
constexpr std::chrono::seconds kConnectTimeout{3};

// Answers of a server that is there and takes no writes: a replica, one that was the
// primary until now, or one that has lost its cluster.
bool is_of_no_use(unsigned error) {
  return error == ER_UNKNOWN_COM_ERROR || error == ER_OPTION_PREVENTS_STATEMENT ||
         error == ER_READ_ONLY_MODE;
}

bool is_lost(unsigned error) {
  return error == CR_SERVER_GONE_ERROR || error == CR_SERVER_LOST || is_of_no_use(error);
}

// Of a COMMIT: only these say that nothing has happened. A server that is going down may have
// committed, and one of a cluster does not know whether the others have.
bool is_undone(unsigned error) {
  return error == ER_LOCK_DEADLOCK || error == ER_LOCK_WAIT_TIMEOUT;
}

// The URLs of the single hosts that it names.
std::vector<std::string> hosts_of(const std::string& url) {
  const std::size_t begin = url.find('@') + 1;
  const std::size_t end = url.find('/', begin);
  const std::string rest = url.substr(end, url.find('?', end) - end);
  std::vector<std::string> urls;
  for (std::size_t at = begin; at < end;) {
    const std::size_t comma = std::min(url.find(',', at), end);
    urls.push_back(url.substr(0, begin) + url.substr(at, comma - at) + rest);
    at = comma + 1;
  }
  return urls;
}

// Deadlocks, locks that took too long, and a server that is going down or coming up.
bool passes(unsigned error) {
  return error == ER_LOCK_DEADLOCK || error == ER_LOCK_WAIT_TIMEOUT ||
         error == ER_SERVER_SHUTDOWN || error == ER_CONNECTION_KILLED;
}

class MysqlConnection final : public OwnConnection {
 public:
  MysqlConnection(const std::string& url, Store& store) : hosts_(hosts_of(url)), store_(store) {
    reconnect();
  }

  Connection& connection() override { return *external_; }
  void begin() override { execute("BEGIN"); }
  void commit() override { execute("COMMIT"); }

  void execute(const std::string& sql) override {
    MYSQL* handle = connection_->handle();
    if (mysql_real_query(handle, sql.data(), sql.size()) == 0) {
      mysql_free_result(mysql_store_result(handle));
      return;
    }
    const unsigned error = mysql_errno(handle);
    const std::string what = sql + ": " + mysql_error(handle);
    lost_ = is_lost(error);
    if (sql == "COMMIT" && !is_undone(error)) throw OutcomeUnknownError(what);
    if (lost_ || passes(error)) throw RetryableError(what);
    throw std::runtime_error(what);
  }

  void recover() override {
    if (lost_) return reconnect();
    execute("ROLLBACK");  // where there is nothing, it does nothing
    // What the library was told on this connection is not known here.
    if (hosts_.size() > 1 && !still_takes_writes()) reconnect();
  }

 private:
  void reconnect() {
    external_.reset();  // it must not outlive the handle
    lost_ = true;
    std::string refusals;
    for (const std::string& host : hosts_) {
      try {
        connection_.emplace(host, kConnectTimeout);
        if (takes_writes()) {
          external_ = wrap(connection_->handle(), store_);
          lost_ = false;
          return;
        }
        refusals += host + " takes no writes; ";
      } catch (const std::runtime_error& error) {
        refusals += std::string(error.what()) + "; ";
      }
    }
    throw RetryableError(refusals);
  }

  bool still_takes_writes() {
    try {
      return takes_writes();
    } catch (const std::runtime_error&) {
      return false;
    }
  }

  bool takes_writes() {
    if (connection_->value("SELECT @@read_only") != "0") return false;
    // MySQL does not know the variable, and MariaDB alone has it off.
    const auto cluster = connection_->query("SHOW VARIABLES LIKE 'wsrep_on'");
    if (cluster.empty() || cluster.front().at(1) != "ON") return true;
    // A question about a commit is for what the cluster has agreed upon.
    connection_->execute("SET SESSION wsrep_sync_wait = 15");
    return connection_->query("SHOW STATUS LIKE 'wsrep_ready'").front().at(1) == "ON";
  }

  const std::vector<std::string> hosts_;
  Store& store_;
  bool lost_ = true;
  std::optional<test::Mysql> connection_;
  std::unique_ptr<Connection> external_;
};

std::unique_ptr<Database> mysql_database_in(const std::string& url, const Clock* clock,
                                            std::shared_ptr<const void> place) {
  // The network that fails has to read what it loses.
  const std::string readable =
      url + (url.find('?') == std::string::npos ? "?" : "&") + "ssl_mode=disabled";
  return std::make_unique<AnyDatabase>(
      Kind{.open = [=] { return mysql::open(readable, {.clock = clock}); },
           .connect = [=](Store& store) { return std::make_unique<MysqlConnection>(url, store); },
           .poll_interval = 100ms,
           .note_registrations =
               {"CREATE TRIGGER note_registration AFTER INSERT ON outbox_event_instance"
                " FOR EACH ROW INSERT INTO registration SELECT substring_index(NEW.owner, '#', 1)"
                " FROM DUAL WHERE NEW.owner <> ''"}},
      std::move(place));
}
#endif

template <class Call>
auto patiently(const Call& call) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  for (;;) {
    try {
      return call();
    } catch (const RetryableError&) {
      if (std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace

std::unique_ptr<Database> sqlite_database(const std::string& path, sqlite::Durability durability) {
  return sqlite_database_in(path, durability, nullptr);
}

std::unique_ptr<Database> temporary_sqlite_database() {
  auto directory = std::make_shared<test::TemporaryDirectory>();
  const std::string path = directory->file("shop.db");
  return sqlite_database_in(path, sqlite::Durability::normal, std::move(directory));
}

#ifdef OUTBOX_WITH_POSTGRES
std::unique_ptr<Database> postgres_database(const std::string& url, const Clock* clock,
                                            std::optional<Progress> progress) {
  return postgres_database_in(url, clock, progress, nullptr);
}

std::unique_ptr<Database> temporary_postgres_database() {
  auto schema = std::make_shared<test::Schema>();
  const std::string url = test::postgres_url() + "?options=-csearch_path%3D" + schema->name();
  return postgres_database_in(url, nullptr, std::nullopt, std::move(schema));
}
#endif

#ifdef OUTBOX_WITH_MYSQL
std::unique_ptr<Database> mysql_database(const std::string& url, const Clock* clock) {
  return mysql_database_in(url, clock, nullptr);
}

std::unique_ptr<Database> temporary_mysql_database() {
  auto database = std::make_shared<test::Database>();
  const std::string url = database->url();
  return mysql_database_in(url, nullptr, std::move(database));
}
#endif

std::unique_ptr<Database> database_of(const Settings& settings, const Clock* clock) {
  switch (settings.store) {
    case StoreKind::sqlite:
      return sqlite_database(database_path(settings.directory));
    case StoreKind::postgres:
#ifdef OUTBOX_WITH_POSTGRES
      return postgres_database(
          settings.url, clock,
          settings.by_position ? std::optional(Progress::position) : std::nullopt);
#else
      break;
#endif
    case StoreKind::mysql:
#ifdef OUTBOX_WITH_MYSQL
      return mysql_database(settings.url, clock);
#else
      break;
#endif
  }
  static_cast<void>(clock);
  throw std::invalid_argument("--store " + std::string(to_string(settings.store)) +
                              ": this program was built without it");
}

std::shared_ptr<Store> open_patiently(Database& database) {
  return patiently([&] { return database.open(); });
}

std::unique_ptr<OwnConnection> connect_patiently(Database& database, Store& store) {
  return patiently([&] { return database.connect(store); });
}

}  // namespace outbox::chaos
