#include "outbox/spi/external.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/quote.h"
#include "base/sql_text.h"
#include "client/mysql/literal.h"
#include "client/mysql/session.h"
#include "outbox/error.h"
#include "store/common/external.h"
#include "store/mysql/connection.h"
#include "store/mysql/mysql_store.h"

namespace outbox::mysql {
namespace {

MYSQL* checked(MYSQL* conn) {
  if (conn == nullptr) throw MisuseError("outbox::wrap() was given a null MYSQL");
  if (mysql_get_socket(conn) == MARIADB_INVALID_SOCKET) {
    throw MisuseError("outbox::wrap() was given a MYSQL that is not connected");
  }
  return conn;
}

// The row must go where the store's reader looks for it. Under another address there may be the
// same tables all the same (another node of a cluster): it is asked once.
void check_same_tables(Session& session) {
  const StoreConfig& config = config_of(session);
  const std::string place = place_of(session.handle());
  if (config.born.empty() || config.places.contains(place)) return;
  const std::string born = born_at(session);
  if (born.empty()) return;  // the INSERT says what is missing
  if (born != config.born) {
    throw MisuseError("outbox::wrap() was given a connection to another server (" + quote(place) +
                      "), and the store is the " + config.description +
                      ": the tables there are not the store's; connect to the same server");
  }
  config.places.add(place);
}

class MysqlConnection final : public ExternalSession<Session> {
 public:
  MysqlConnection(MYSQL* conn, const StoreConfigPtr& config)
      : ExternalSession(conn, config, config->max_packet, Session::Prepare::never) {}

  // An error does not say what it has left of the transaction (nothing, if it was a
  // deadlock); the next answer does.
  bool in_transaction() const override {
    // Errors say nothing about the transaction. That of a statement of ours was forgotten by
    // the library when the statement was closed.
    Session& own = unchecked_session();
    if (mysql_errno(own.handle()) != 0 || own.last_failure().ended_transaction()) {
      session().run_text("DO 0", "look at the connection");
      own.forget_failure();
    }
    unsigned status = 0;
    mariadb_get_infov(own.handle(), MARIADB_CONNECTION_SERVER_STATUS, &status);
    return (status & SERVER_STATUS_IN_TRANS) != 0 || (status & SERVER_STATUS_AUTOCOMMIT) == 0;
  }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    Session& own = session();
    if (!in_transaction()) {
      throw MisuseError("an event cannot be written outside a transaction (" +
                        config_of(own).description +
                        ", an external connection): run BEGIN on it first; after a deadlock the "
                        "server has rolled back, so start over");
    }
    check_same_tables(own);
    return insert_rows(own, events, options);
  }
};

}  // namespace

std::unique_ptr<Connection> MysqlStore::wrap(ExternalHandle handle) {
  auto* const* conn = std::get_if<st_mysql*>(&handle);
  if (conn == nullptr) return Store::wrap(handle);  // refuses
  return std::make_unique<MysqlConnection>(checked(*conn), config());
}

namespace {

constexpr const char* kSavepoint = "`outbox insert`";

// How far apart the numbers of a statement's rows are; 0 before the database was checked. Shared by
// what one wrap() made.
using SeqStep = std::shared_ptr<std::atomic<std::int64_t>>;

// The server undoes a statement that fails, but not those before it: several stand in a savepoint.
class Plan final : public InsertPlan {
 public:
  Plan(StoreConfigPtr config, SeqStep seq_step, std::span<const Event> events,
       const InsertOptions& options)
      : config_(std::move(config)),
        seq_step_(std::move(seq_step)),
        events_(events),
        options_(options) {
    if (*seq_step_ > 0 && !events_.empty()) begin_insert();
  }

  std::string next() override {
    if (events_.empty()) return {};
    switch (step_) {
      case Step::check:
        return config_->expand(kBornSql);
      case Step::savepoint:
        return std::string("SAVEPOINT ") + kSavepoint;
      case Step::insert:
        if (portion_.sql.empty()) next_portion();
        return portion_.sql;
      case Step::release:
        return std::string("RELEASE SAVEPOINT ") + kSavepoint;
      case Step::undo:
        return std::string("ROLLBACK TO SAVEPOINT ") + kSavepoint;
      case Step::done:
        break;
    }
    return {};
  }

  void answered(const ExecutorResult& result) override {
    switch (step_) {
      case Step::check:
        return checked(result);
      case Step::savepoint:
        step_ = Step::insert;
        return;
      case Step::insert:
        return inserted(result);
      case Step::undo:
        std::rethrow_exception(error_);
      case Step::release:
      case Step::done:
        step_ = Step::done;
    }
  }

  void failed(std::exception_ptr error) override {
    switch (step_) {
      case Step::check:
        // This login may not read it, say; if it is worse, the INSERT fails as well.
        return begin_insert();
      case Step::insert:
        if (!in_savepoint_) std::rethrow_exception(error);
        error_ = std::move(error);
        step_ = Step::undo;
        return;
      case Step::undo:
        std::rethrow_exception(error_);  // what came first
      case Step::savepoint:
      case Step::release:
      case Step::done:
        std::rethrow_exception(error);
    }
  }

  std::vector<RowRef> rows() override { return std::move(refs_); }

 private:
  enum class Step { check, savepoint, insert, release, undo, done };

  // Whose connection it is cannot be seen; the time when the tables were made tells them from
  // others.
  void checked(const ExecutorResult& result) {
    if (!result.rows.empty()) {
      const ResultRow row(std::make_shared<const ResultRow::Columns>(result.rows.front().size()),
                          result.rows.front());
      if (!config_->born.empty() && row.get<std::string>(0) != config_->born) {
        throw MisuseError(
            "the external transaction is on another server than the store, which is "
            "the " +
            config_->description +
            ": the tables there are not the store's; connect to the same server");
      }
      *seq_step_ = row.get<std::int64_t>(1);
    }
    begin_insert();
  }

  void begin_insert() {
    next_portion();
    in_savepoint_ = portion_.refs.size() < events_.size();
    step_ = in_savepoint_ ? Step::savepoint : Step::insert;
  }

  void next_portion() { portion_ = insert_text(*config_, events_.subspan(refs_.size()), options_); }

  void inserted(const ExecutorResult& result) {
    const auto rows = static_cast<std::int64_t>(portion_.refs.size());
    if (result.changed != rows) {
      throw MisuseError("an INSERT of " + std::to_string(rows) + " events changed " +
                        std::to_string(result.changed) + " rows, says the executor (" +
                        config_->description +
                        "): have it set ExecutorResult::changed; roll the transaction back");
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      RowRef& ref = refs_.emplace_back(portion_.refs[static_cast<std::size_t>(i)]);
      if (result.last_insert_id > 0 && (i == 0 || *seq_step_ > 0))
        ref.seq = result.last_insert_id + i * *seq_step_;
    }
    portion_ = {};
    if (refs_.size() == events_.size()) step_ = in_savepoint_ ? Step::release : Step::done;
  }

  const StoreConfigPtr config_;
  const SeqStep seq_step_;
  const std::span<const Event> events_;
  const InsertOptions options_;
  Step step_ = Step::check;
  bool in_savepoint_ = false;
  InsertText portion_;  // that is inserted next
  std::exception_ptr error_;
  std::vector<RowRef> refs_;
};

class MysqlDialect final : public ExecutorDialect {
 public:
  explicit MysqlDialect(StoreConfigPtr config) : config_(std::move(config)) {}

  std::unique_ptr<InsertPlan> plan_insert(std::span<const Event> events,
                                          const InsertOptions& options) const override {
    config_->check_process();
    return std::make_unique<Plan>(config_, seq_step_, events, options);
  }

  std::string written(std::string_view sql, std::span<const Parameter> values) const override {
    config_->check_process();
    const auto fill = [&](bool backslashes, std::span<const std::string> literals) {
      return filled_in(sql, backslashes, literals);
    };
    return statement_text(sql, values, literal, fill, "the SQL mode (NO_BACKSLASH_ESCAPES)");
  }

 private:
  const StoreConfigPtr config_;
  const SeqStep seq_step_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace

std::shared_ptr<const ExecutorDialect> MysqlStore::executor_dialect() const {
  return std::make_shared<MysqlDialect>(config());
}

}  // namespace outbox::mysql
