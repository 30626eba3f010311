// The store on MariaDB 10.6+ and MySQL 8+: shared by many instances on many hosts.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "outbox/clock.h"
#include "outbox/json_codec.h"
#include "outbox/log.h"
#include "outbox/store.h"

struct st_mysql;  // libmariadb's MYSQL

namespace outbox::mysql {

// What is left of an event that was delivered.
enum class OnDone { keep, remove };

struct Options {
  // `[A-Za-z_][A-Za-z0-9_]*`, at most 48 characters, optionally behind `database.`;
  // the side tables are named after it. Without a database that of the URL is meant.
  std::string table = "outbox_event";

  OnDone on_done = OnDone::keep;

  // How many transactions may be open at once. An engine needs four more, and
  // operators' calls up to five.
  std::size_t connections = 8;

  // How long a transaction waits for a connection.
  std::chrono::milliseconds wait_timeout{5'000};

  // Create the tables or bring them up to date. Without it, open() refuses a
  // database that is not up to date.
  bool migrate = true;

  // Keep statements prepared on each connection. Switch it off behind a proxy that
  // shares connections (ProxySQL with multiplexing), which loses them.
  bool prepare = true;

  // Called with each new connection that transactions run on, before they do: to set
  // a time zone, an isolation level, an SQL mode. They are the server's otherwise;
  // only autocommit is switched on, text is utf8mb4, and an UPDATE counts the rows that
  // it matched, changed or not.
  std::function<void(st_mysql*)> on_open{};

  std::shared_ptr<const JsonCodec> codec{};  // empty: default_json_codec()
  Logger log{};                              // empty: standard_error_log()

  // For local waiting, and for the times of events. Leases, delays and retries
  // are judged by the server's clock.
  const Clock* clock = nullptr;  // null: host_clock()
};

}  // namespace outbox::mysql
