#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/quote.h"
#include "client/postgres/session.h"
#include "outbox/error.h"
#include "outbox/postgres.h"
#include "store/postgres/connection.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

StoreConfigPtr config_of_store(Store& store) {
  if (const auto* postgres_store = dynamic_cast<PostgresStore*>(&store)) {
    return postgres_store->config();
  }
  throw MisuseError("postgres::ExternalConnection needs a PostgreSQL store, not " +
                    store.description());
}

PGconn* checked(PGconn* conn) {
  if (conn == nullptr)
    throw MisuseError("postgres::ExternalConnection was given a null connection");
  if (PQstatus(conn) != CONNECTION_OK) {
    throw MisuseError("postgres::ExternalConnection was given a connection that is not open");
  }
  return conn;
}

[[noreturn]] void refuse(const char* call) {
  throw MisuseError(std::string("postgres::ExternalConnection::") + call +
                    "(): the transaction on an external connection is its owner's; begin and end "
                    "it with libpq's own API");
}

// The row must go where the store's reader looks for it. Under another address it may be the
// same database all the same: it is asked once.
void check_same_database(Session& session) {
  const StoreConfig& config = config_of(session);
  const std::string place = place_of(session.handle());
  if (!config.id || config.places.contains(place)) return;
  const Result id = session.run(sql::kDatabaseId);
  if (DatabaseId{.server = id.integer(0, 0), .database = id.integer(0, 1)} != *config.id) {
    throw MisuseError("postgres::ExternalConnection was given a connection to the database " +
                      quote(PQdb(session.handle())) + " at " + quote(PQhost(session.handle())) +
                      ", port " + quote(PQport(session.handle())) + ", and the store is the " +
                      config.description + ": connect to the same database");
  }
  config.places.add(place);
}

}  // namespace

// Most users make one for a transaction and forget it: only who uses it again has
// the statement prepared.
class ExternalConnection::Impl {
 public:
  Impl(PGconn* conn, StoreConfigPtr config)
      : session_(conn, std::move(config), Session::Prepare::from_second_use) {}
  ~Impl() {
    if (getpid() == config_of(session_).pid) session_.forget_statements();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Session& session() {
    config_of(session_).check_process();
    if (PQpipelineStatus(session_.handle()) != PQ_PIPELINE_OFF) {
      throw MisuseError("the external connection is in pipeline mode (" +
                        config_of(session_).description + "): leave it before writing events");
    }
    return session_;
  }
  const Session& session() const { return session_; }

 private:
  Session session_;
};

ExternalConnection::ExternalConnection(pg_conn* conn, Store& store)
    : impl_(std::make_unique<Impl>(checked(conn), config_of_store(store))) {}

ExternalConnection::~ExternalConnection() = default;

bool ExternalConnection::in_transaction() const { return impl_->session().in_transaction(); }

std::vector<RowRef> ExternalConnection::insert(std::span<const Event> events,
                                               const InsertOptions& options) {
  Session& session = impl_->session();
  if (!session.in_transaction()) {
    const bool has_failed = PQtransactionStatus(session.handle()) == PQTRANS_INERROR;
    throw MisuseError(
        "an event was to be written " +
        std::string(has_failed ? "in a transaction that has failed" : "outside a transaction") +
        " (" + config_of(session).description +
        ", an external connection): " + (has_failed ? "roll back first" : "run BEGIN on it first"));
  }
  check_same_database(session);
  return insert_rows(session, Insertion(events, options, config_of(session).options));
}

void ExternalConnection::begin() { refuse("begin"); }
void ExternalConnection::commit() { refuse("commit"); }
void ExternalConnection::rollback() { refuse("rollback"); }
void ExternalConnection::savepoint(const std::string& /*name*/) { refuse("savepoint"); }
void ExternalConnection::release(const std::string& /*name*/) { refuse("release"); }
void ExternalConnection::rollback_to(const std::string& /*name*/) { refuse("rollback_to"); }

std::int64_t ExternalConnection::execute(std::string_view sql, std::span<const Parameter> values) {
  return impl_->session().execute(sql, values);
}

std::vector<ResultRow> ExternalConnection::query(std::string_view sql,
                                                 std::span<const Parameter> values) {
  return impl_->session().query(sql, values);
}

namespace {

// Rows a statement: a server takes texts of up to a gigabyte.
constexpr std::size_t kExecutorRows = 100;

// The columns as the texts of arrays. They are made of digits, letters and "{},-
// alone: the same in every encoding that a session may have, and without anything that
// would have to be escaped in a literal.
class Texts {
 public:
  template <class... Args>
  explicit Texts(const Args&... args) : values_{text_of(args)...} {}

  // The statement with a literal in the place of each $1, $2, ...
  std::string written_into(std::string_view sql) const {
    std::string text;
    for (std::size_t dollar = sql.find('$'); dollar != std::string_view::npos;
         dollar = sql.find('$')) {
      std::size_t number = 0;
      const char* digits = sql.data() + dollar + 1;
      const char* end = std::from_chars(digits, sql.data() + sql.size(), number).ptr;
      text.append(sql.substr(0, dollar)).append("'").append(values_.at(number - 1)).append("'");
      sql.remove_prefix(static_cast<std::size_t>(end - sql.data()));
    }
    return text.append(sql);
  }

 private:
  static std::string text_of(OptionalText value) { return "{" + element(value) + "}"; }
  static std::string text_of(std::span<const std::int64_t> values) {
    return array(values, [](std::int64_t value) { return std::to_string(value); });
  }
  static std::string text_of(const std::vector<std::int64_t>& values) {
    return text_of(std::span<const std::int64_t>(values));
  }
  static std::string text_of(const std::vector<OptionalText>& values) {
    return array(values, element);
  }
  static std::string text_of(const std::vector<std::optional<Bytes>>& values) {
    return array(values, [](const std::optional<Bytes>& value) {
      return element(value ? OptionalText(value->data) : std::nullopt);
    });
  }

  template <class Values, class ElementOf>
  static std::string array(const Values& values, ElementOf element_of) {
    std::string text = "{";
    for (const auto& value : values) {
      if (text.size() > 1) text.push_back(',');
      text.append(element_of(value));
    }
    return text + "}";
  }

  static std::string element(OptionalText bytes) {
    if (!bytes) return "NULL";
    if (bytes->empty()) return R"("")";
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(bytes->size() * 2);
    for (const char byte : *bytes) {
      const auto value = static_cast<unsigned char>(byte);
      text.push_back(kDigits[value >> 4]);
      text.push_back(kDigits[value & 15]);
    }
    return text;
  }

  const std::vector<std::string> values_;
};

[[noreturn]] void refuse_owners(const char* call) {
  throw MisuseError(
      std::string(call) +
      "() on an external transaction: it is its owner's; call the client library that "
      "it belongs to");
}

// The INSERT, which inserts nothing into another database: whose connection it is cannot be
// seen, and to ask would be another round trip.
std::string insert_into(const StoreConfig& config) {
  std::string sql = expand(sql::kInsertByExecutor.text, config.table);
  if (!config.id) return sql;
  std::string id = expand(sql::kDatabaseId.text, config.table);
  const std::string condition = "WHERE (" + std::to_string(config.id->server) + "::bigint, " +
                                std::to_string(config.id->database) + "::bigint) = (" + id + ")\n";
  return sql.insert(sql.find("ORDER BY number"), condition);
}

class ExecutorConnection final : public Connection {
 public:
  ExecutorConnection(StoreConfigPtr config, SqlExecutor executor)
      : config_(std::move(config)), executor_(std::move(executor)), sql_(insert_into(*config_)) {}

  bool in_transaction() const override { return true; }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    config_->check_process();
    std::vector<RowRef> refs;
    const std::vector<std::int64_t> holds = holds_of(events, config_->options.clock->now());
    refs.reserve(holds.size());
    for (const std::int64_t hold : holds) refs.push_back({.hold = hold});
    for (std::size_t at = 0; at < events.size(); at += kExecutorRows) {
      const std::size_t count = std::min(events.size() - at, kExecutorRows);
      const auto texts = columns_of<Texts>(events.subspan(at, count),
                                           std::span<const std::int64_t>(holds).subspan(at, count),
                                           null_if_empty(options.owner), *config_->options.codec);
      const auto rows = executor_(texts.written_into(sql_));
      if (rows.empty() && config_->id) {
        throw MisuseError(
            "the external transaction is on another database than the store, which is "
            "the " +
            config_->description + ": connect to the same database");
      }
      if (rows.size() != count) {
        throw PermanentError("inserting " + std::to_string(count) + " events returned " +
                             std::to_string(rows.size()) + " rows (" + config_->description +
                             "): look for triggers or rules on the table");
      }
      for (std::size_t i = 0; i < count; ++i) {
        refs[at + i].seq = rows[i][0];
        refs[at + i].shard = static_cast<int>(rows[i][1]);
      }
    }
    return refs;
  }

  void begin() override { refuse_owners("begin"); }
  void commit() override { refuse_owners("commit"); }
  void rollback() override { refuse_owners("rollback"); }
  void savepoint(const std::string& /*name*/) override { refuse_owners("savepoint"); }
  void release(const std::string& /*name*/) override { refuse_owners("release"); }
  void rollback_to(const std::string& /*name*/) override { refuse_owners("rollback_to"); }
  std::int64_t execute(std::string_view /*sql*/, std::span<const Parameter> /*values*/) override {
    refuse_owners("execute");
  }
  std::vector<ResultRow> query(std::string_view /*sql*/,
                               std::span<const Parameter> /*values*/) override {
    refuse_owners("query");
  }

 private:
  const StoreConfigPtr config_;
  const SqlExecutor executor_;
  const std::string sql_;
};

}  // namespace

std::unique_ptr<Connection> via_executor(Store& store, SqlExecutor executor) {
  const auto* postgres_store = dynamic_cast<PostgresStore*>(&store);
  if (postgres_store == nullptr) {
    throw MisuseError("postgres::via_executor() needs a PostgreSQL store, not " +
                      store.description());
  }
  return std::make_unique<ExecutorConnection>(postgres_store->config(), std::move(executor));
}

}  // namespace outbox::postgres
