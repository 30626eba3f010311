#include "database.h"

#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "outbox/error.h"
#include "outbox/mysql.h"
#include "support/mysql.h"

namespace outbox::chaos {
namespace {

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

class MysqlDatabase final : public Database {
 public:
  MysqlDatabase(std::string url, const Clock* clock) : url_(std::move(url)), clock_(clock) {}

  std::shared_ptr<Store> open() override {
    // The network that fails has to read what it loses.
    const char* const separator = url_.find('?') == std::string::npos ? "?" : "&";
    return mysql::open(url_ + separator + "ssl_mode=disabled", {.clock = clock_});
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
        " FOR EACH ROW INSERT INTO registration SELECT substring_index(NEW.owner, '#', 1)"
        " FROM DUAL WHERE NEW.owner <> ''"};
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
