#include "outbox/spi/external.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/hex.h"
#include "base/quote.h"
#include "base/sql_text.h"
#include "client/postgres/session.h"
#include "client/postgres/user_statement.h"
#include "outbox/error.h"
#include "store/common/external.h"
#include "store/postgres/connection.h"
#include "store/postgres/postgres_store.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {
namespace {

PGconn* checked(PGconn* conn) {
  if (conn == nullptr) throw MisuseError("outbox::wrap() was given a null PGconn");
  if (PQstatus(conn) != CONNECTION_OK) {
    throw MisuseError("outbox::wrap() was given a PGconn that is not open");
  }
  return conn;
}

// The row must go where the store's reader looks for it. Under another address it may be the
// same database all the same: it is asked once.
void check_same_database(Session& session) {
  const StoreConfig& config = config_of(session);
  const std::string place = place_of(session.handle());
  if (!config.id || config.places->contains(place)) return;
  const Result id = session.run(sql::kDatabaseId);
  if (DatabaseId{.server = id.integer(0, 0), .database = id.integer(0, 1)} != *config.id) {
    throw MisuseError("outbox::wrap() was given a connection to the database " +
                      quote(PQdb(session.handle())) + " at " + quote(PQhost(session.handle())) +
                      ", port " + quote(PQport(session.handle())) + ", and the store is the " +
                      config.description + ": connect to the same database");
  }
  config.places->add(place);
}

// Most users make one for a transaction and forget it: only who uses it again has
// the statement prepared.
class PostgresConnection final : public ExternalSession<Session> {
 public:
  PostgresConnection(PGconn* conn, StoreConfigPtr config)
      : ExternalSession(conn, std::move(config), Session::Prepare::from_second_use) {}
  ~PostgresConnection() override {
    Session& own = unchecked_session();
    if (getpid() == config_of(own).pid) own.forget_statements();
  }

  bool in_transaction() const override { return session().in_transaction(); }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    Session& own = session();
    if (!own.in_transaction()) {
      const bool has_failed = PQtransactionStatus(own.handle()) == PQTRANS_INERROR;
      throw MisuseError(
          "an event cannot be written " +
          std::string(has_failed ? "in a transaction that has failed" : "outside a transaction") +
          " (" + config_of(own).description + ", an external connection): " +
          (has_failed ? "roll back first" : "run BEGIN on it first"));
    }
    check_same_database(own);
    return insert_rows(own, Insertion(events, options, config_of(own).options));
  }

 private:
  void check_usable() const override {
    ExternalSession::check_usable();
    if (PQpipelineStatus(unchecked_session().handle()) == PQ_PIPELINE_OFF) return;
    throw MisuseError("the external connection is in pipeline mode (" +
                      config_of(unchecked_session()).description +
                      "): leave it before writing events");
  }
};

}  // namespace

std::unique_ptr<Connection> PostgresStore::wrap(ExternalHandle handle) {
  auto* const* conn = std::get_if<pg_conn*>(&handle);
  if (conn == nullptr) return Store::wrap(handle);  // refuses
  return std::make_unique<PostgresConnection>(checked(*conn), config());
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
    std::string text;
    text.reserve(bytes->size() * 2);
    append_hex(text, *bytes);
    return text;
  }

  const std::vector<std::string> values_;
};

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

class Plan final : public InsertPlan {
 public:
  Plan(StoreConfigPtr config, std::string sql, std::span<const Event> events,
       const InsertOptions& options)
      : config_(std::move(config)),
        sql_(std::move(sql)),
        events_(events),
        owner_(options.owner),
        holds_(holds_of(events, config_->options.clock->now())) {
    for (const std::int64_t hold : holds_) refs_.push_back({.hold = hold});
  }

  std::string next() override {
    if (done_ == events_.size()) return {};
    count_ = std::min(events_.size() - done_, kExecutorRows);
    return columns_of<Texts>(events_.subspan(done_, count_),
                             std::span<const std::int64_t>(holds_).subspan(done_, count_),
                             null_if_empty(owner_), *config_->options.codec)
        .written_into(sql_);
  }

  void answered(const ExecutorResult& result) override {
    if (result.rows.empty() && config_->id) {
      throw MisuseError(
          "the external transaction is on another database than the store, which is "
          "the " +
          config_->description + ": connect to the same database");
    }
    if (result.rows.size() != count_) {
      throw PermanentError("inserting " + std::to_string(count_) + " events returned " +
                           std::to_string(result.rows.size()) + " rows (" + config_->description +
                           "): look for triggers or rules on the table");
    }
    const auto columns =
        std::make_shared<const ResultRow::Columns>(ResultRow::Columns{"seq", "shard"});
    for (const auto& values : result.rows) {
      const ResultRow row(columns, values);
      refs_[done_].seq = row.get<Seq>("seq");
      refs_[done_].shard = row.get<int>("shard");
      ++done_;
    }
  }

  // The server has undone the statement, or the whole transaction.
  void failed(std::exception_ptr error) override { std::rethrow_exception(std::move(error)); }

  std::vector<RowRef> rows() override { return std::move(refs_); }

 private:
  const StoreConfigPtr config_;
  const std::string sql_;
  const std::span<const Event> events_;
  const std::string owner_;
  const std::vector<std::int64_t> holds_;
  std::size_t done_ = 0;
  std::size_t count_ = 0;  // of the statement that runs
  std::vector<RowRef> refs_;
};

class PostgresDialect final : public ExecutorDialect {
 public:
  explicit PostgresDialect(StoreConfigPtr config)
      : config_(std::move(config)), sql_(insert_into(*config_)) {}

  std::unique_ptr<InsertPlan> plan_insert(std::span<const Event> events,
                                          const InsertOptions& options) const override {
    config_->check_process();
    return std::make_unique<Plan>(config_, sql_, events, options);
  }

  std::string written(std::string_view sql, std::span<const Parameter> values) const override {
    config_->check_process();
    const auto fill = [&](bool backslashes, std::span<const std::string> literals) {
      return filled_in(numbered(sql, backslashes), backslashes, literals);
    };
    return statement_text(sql, values, literal, fill, "standard_conforming_strings");
  }

 private:
  const StoreConfigPtr config_;
  const std::string sql_;
};

}  // namespace

std::shared_ptr<const ExecutorDialect> PostgresStore::executor_dialect() const {
  return std::make_shared<PostgresDialect>(config());
}

}  // namespace outbox::postgres
