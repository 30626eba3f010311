#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "database.h"
#include "outbox/error.h"
#include "outbox/mysql.h"
#include "support/mysql.h"
#include "temporary_database.h"

namespace outbox::chaos {
namespace {

bool is_lost(unsigned error) { return error == CR_SERVER_GONE_ERROR || error == CR_SERVER_LOST; }

// Deadlocks, locks that took too long, and a server that is going down or coming up.
bool passes(unsigned error) {
  return error == ER_LOCK_DEADLOCK || error == ER_LOCK_WAIT_TIMEOUT ||
         error == ER_SERVER_SHUTDOWN || error == ER_CONNECTION_KILLED;
}

class MysqlConnection final : public OwnConnection {
 public:
  MysqlConnection(std::string url, Store& store) : url_(std::move(url)), store_(store) {
    reconnect();
  }

  Connection& connection() override { return *borrowed_; }
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
    if (lost_ && sql == "COMMIT") throw OutcomeUnknownError(what);
    if (lost_ || passes(error)) throw RetryableError(what);
    throw std::runtime_error(what);
  }

  void recover() override {
    if (lost_) return reconnect();
    execute("ROLLBACK");  // where there is nothing, it does nothing
  }

 private:
  void reconnect() {
    borrowed_.reset();  // it must not outlive the handle
    try {
      connection_.emplace(url_);
    } catch (const std::runtime_error& error) {
      throw RetryableError(error.what());
    }
    borrowed_.emplace(connection_->handle(), store_);
    lost_ = false;
  }

  const std::string url_;
  Store& store_;
  bool lost_ = true;
  std::optional<test::Mysql> connection_;
  std::optional<mysql::Borrowed> borrowed_;
};

class MysqlDatabase final : public Database {
 public:
  MysqlDatabase(std::string url, const Clock* clock) : url_(std::move(url)), clock_(clock) {}

  std::shared_ptr<Store> open() override {
    // The network that fails has to read what it loses.
    return mysql::open(url_ + "?ssl_mode=disabled", {.clock = clock_});
  }
  std::unique_ptr<OwnConnection> connect(Store& store) override {
    return std::make_unique<MysqlConnection>(url_, store);
  }
  std::chrono::milliseconds poll_interval() const override {
    return std::chrono::milliseconds{100};
  }
  std::vector<std::string> note_registrations() const override {
    return {
        "CREATE TRIGGER note_registration AFTER INSERT ON outbox_event_instance"
        " FOR EACH ROW INSERT INTO registration VALUES (NEW.owner)"};
  }

 private:
  const std::string url_;
  const Clock* const clock_;
};

class TemporaryMysqlDatabase final : public Database {
 public:
  std::shared_ptr<Store> open() override { return database_.open(); }
  std::unique_ptr<OwnConnection> connect(Store& store) override { return database_.connect(store); }
  std::chrono::milliseconds poll_interval() const override { return database_.poll_interval(); }
  std::vector<std::string> note_registrations() const override {
    return database_.note_registrations();
  }

 private:
  const test::Database place_;
  MysqlDatabase database_{place_.url(), nullptr};
};

}  // namespace

std::unique_ptr<Database> mysql_database(const std::string& url, const Clock* clock) {
  return std::make_unique<MysqlDatabase>(url, clock);
}

std::unique_ptr<Database> temporary_mysql_database() {
  return std::make_unique<TemporaryMysqlDatabase>();
}

}  // namespace outbox::chaos
