#include "client/mysql/database.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "client/mysql/statement.h"
#include "outbox/error.h"

namespace outbox::mysql {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

// The server waits for a lock for a second at least. A client that gave up then as well would
// lose the connection instead of hearing of it.
constexpr seconds kShortestLimit{2};

// For calls without a limit of their own, those of operators: as long as servers wait by
// default.
constexpr seconds kLockLimit{50};

void run(MYSQL* connection, const std::string& text, const std::string& where) {
  if (mysql_real_query(connection, text.data(), text.size()) != 0) {
    throw_failure(Failure::of(connection), "set the connection up", where);
  }
}

// A wait for a lock must end before the statement's limit: then the caller gets the lock's error,
// and keeps the connection. MySQL ends such waits up to a second late.
std::string lock_wait_below(seconds limit, bool is_mariadb) {
  return std::to_string(std::max<seconds::rep>(limit.count() - (is_mariadb ? 1 : 2), 1));
}

std::string settings_for_transactions(bool is_mariadb, std::optional<seconds> limit) {
  std::string sql = "SET NAMES utf8mb4, SESSION autocommit = 1";
  if (!limit) return sql;
  const std::string wait = lock_wait_below(*limit, is_mariadb);
  for (const std::string_view name : {"innodb_lock_wait_timeout", "lock_wait_timeout"}) {
    // MySQL takes LEAST of the two for a DECIMAL, which it refuses here.
    sql.append(", SESSION ").append(name).append(" = CAST(LEAST(@@SESSION.").append(name);
    sql.append(", ").append(wait).append(") AS SIGNED)");
  }
  return sql;
}

// What must be right before the server is asked for anything. The character set is said
// again because servers may ignore what the client asked for
// (skip-character-set-client-handshake).
std::string first_settings(Use use, bool is_mariadb, std::optional<seconds> limit) {
  if (use == Use::transactions) return settings_for_transactions(is_mariadb, limit);
  return std::string(
             "SET NAMES utf8mb4 COLLATE utf8mb4_bin,"
             " SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',"
             " SESSION sql_select_limit = 18446744073709551615,"
             " SESSION max_join_size = 18446744073709551615, SESSION sql_big_selects = 1,") +
         (is_mariadb ? " SESSION max_statement_time = 0" : " SESSION max_execution_time = 0");
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What the session has otherwise; empty if there is nothing.
std::string engine_settings(const Facts& facts, bool is_mariadb, std::optional<seconds> limit) {
  std::string sql;
  const auto set = [&](std::string_view name, std::string_view value) {
    const std::string_view quote = is_number(value) ? "" : "'";
    sql.append(sql.empty() ? "SET SESSION " : ", SESSION ").append(name).append(" = ");
    sql.append(quote).append(value).append(quote);
  };
  for (const SessionSetting& setting : kSessionSettings) {
    if (facts.has(setting.name) && facts.value(setting.name) != setting.value) {
      set(setting.name, setting.value);
    }
  }
  // Reads wait for what was committed before on any node: an event must not be read again
  // on a node that does not have its status update yet.
  if (facts.is_galera()) set("wsrep_sync_wait", "1");
  const std::string wait =
      limit ? lock_wait_below(*limit, is_mariadb) : std::to_string(kLockLimit.count());
  set("innodb_lock_wait_timeout", wait);
  if (limit) set("lock_wait_timeout", wait);
  return sql;
}

void check_ready(const Facts& facts, MYSQL* connection, const std::string& where) {
  const std::string reason = facts.unready();
  if (reason.empty()) return;
  const char* host = nullptr;
  unsigned port = 0;
  mariadb_get_infov(connection, MARIADB_CONNECTION_HOST, &host);
  mariadb_get_infov(connection, MARIADB_CONNECTION_PORT, &port);
  throw RetryableError("the server " + std::string(host == nullptr ? "" : host) + ":" +
                       std::to_string(port) + " takes no writes: " + reason + " (" + where +
                       "); name the primary in the URL, or wait until it is one");
}

}  // namespace

std::string place_of(MYSQL* connection) {
  const char* host = nullptr;
  const char* socket = nullptr;
  unsigned port = 0;
  mariadb_get_infov(connection, MARIADB_CONNECTION_HOST, &host);
  mariadb_get_infov(connection, MARIADB_CONNECTION_UNIX_SOCKET, &socket);
  mariadb_get_infov(connection, MARIADB_CONNECTION_PORT, &port);
  const auto text = [](const char* part) { return std::string(part == nullptr ? "" : part); };
  return text(host) + " " + text(socket) + " " + std::to_string(port);
}

Link DatabaseContext::connect(Use use, std::optional<milliseconds> limit) const {
  check_process();
  reconnection.check(steady_clock::now());
  std::optional<seconds> limit_in_seconds;
  if (limit) limit_in_seconds = std::max(kShortestLimit, std::chrono::ceil<seconds>(*limit));
  if (use == Use::transactions && target.read_timeout()) limit_in_seconds = target.read_timeout();
  Link link;
  const auto set_up = [&](MYSQL* connection) {
    const bool is_mariadb = mariadb_connection(connection) != 0;
    check_version(is_mariadb, mysql_get_server_info(connection),
                  mysql_get_server_version(connection), description);
    run(connection, first_settings(use, is_mariadb, limit_in_seconds), description);
    link.facts = use == Use::engine ? Facts::read(connection, description)
                                    : Facts::read_least(connection, description);
    check_ready(link.facts, connection, description);
    if (use == Use::engine) {
      run(connection, engine_settings(link.facts, is_mariadb, limit_in_seconds), description);
      // Where it is refused, nobody else could have set it either.
      static constexpr std::string_view kNow = "SET SESSION timestamp = DEFAULT";
      mysql_real_query(connection, kNow.data(), kNow.size());
    } else {
      // A node that has lost its cluster answers what was asked so far, but not this.
      run(connection, "DO 0", description);
    }
  };
  try {
    link.handle = target.connect(limit_in_seconds, set_up);
    max_packet = link.facts.max_packet();
    reconnection.succeeded();
    return link;
  } catch (const Error& error) {
    reconnection.failed(error.what(), steady_clock::now());
    throw;
  }
}

void check_version(bool is_mariadb, std::string_view version, unsigned long number,
                   const std::string& where) {
  constexpr unsigned long kOldestMariaDb = 100'600;
  constexpr unsigned long kOldestMySql = 80'000;
  if (number >= (is_mariadb ? kOldestMariaDb : kOldestMySql)) return;
  throw PermanentError("the server is " + std::string(is_mariadb ? "MariaDB " : "MySQL ") +
                       std::string(version) + " (" + where +
                       "), which has no SKIP LOCKED; this library needs MariaDB 10.6 or MySQL 8.0");
}

bool Database::ensure_connected() {
  context_->check_process();
  // That the server closed it for its idleness is no failure.
  const bool is_outdated = stays_young_ && is_old();
  if (!is_outdated && (idle_limit_ ? healthy() : !lost())) return false;
  drop();
  made_at_ = newest();
  link_ = context_->connect(use_, limit_);
  ++connections_;
  session_.emplace(link_.handle.get(), context_, context_->max_packet, Session::Prepare::at_once);
  try {
    set_up();
  } catch (...) {
    drop();
    throw;
  }
  return true;
}

void Database::set_up() {
  if (registration_ != nullptr && registration_->is_elsewhere(link_.facts.server())) {
    throw RetryableError("this is not the server that the instance is registered at (" +
                         context_->description + "): it registers again with its next renewal");
  }
  std::string settings;
  const auto set = [&](const std::string& name, std::chrono::seconds value) {
    settings += (settings.empty() ? "SET SESSION " : ", SESSION ") + name + " = " +
                std::to_string(value.count());
  };
  if (lock_limit_) set("innodb_lock_wait_timeout", *lock_limit_);
  if (idle_limit_) set("wait_timeout", std::chrono::ceil<std::chrono::seconds>(*idle_limit_));
  if (!settings.empty()) session_->run_text(settings, "set the connection up");
  if (on_connect_) on_connect_(link_.handle.get());
}

bool Database::healthy() const {
  if (lost()) return false;
  // A server speaks only when it is asked, or to say why it closes the connection.
  pollfd socket{.fd = mysql_get_socket(link_.handle.get()), .events = POLLIN, .revents = 0};
  return poll(&socket, 1, 0) == 0;
}

bool Database::make_ready() const { return !lost() && !session_->in_transaction(); }

void Database::drop() noexcept {
  if (getpid() == context_->pid) {
    // Before the statements, which need not be closed one by one then.
    link_.handle.reset();
  } else {
    // To say good-bye would end the connection of the parent.
    if (session_) session_->abandon();
    static_cast<void>(link_.handle.release());
  }
  session_.reset();
}

std::shared_ptr<Pool> make_pool(const std::shared_ptr<const DatabaseContext>& context, Use use,
                                PoolLimits limits, std::chrono::milliseconds limit,
                                std::function<void(MYSQL*)> on_open) {
  return make_pool_of(std::move(limits), context->description,
                      [context, use, limit, on_open = std::move(on_open)] {
                        auto database = std::make_unique<Database>(context, use);
                        if (limit.count() > 0) database->limit_calls(limit);
                        database->on_connect(on_open);
                        database->ensure_connected();
                        return database;
                      });
}

}  // namespace outbox::mysql
