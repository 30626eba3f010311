// What the tests of the MySQL store share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "outbox/error.h"
#include "outbox/event.h"
#include "outbox/mysql.h"
#include "outbox/testing.h"
#include "store/mysql/store_config.h"
#include "support/mysql.h"
#include "support/stores.h"

namespace outbox::mysql {

using namespace std::chrono_literals;
using test::begun;
using test::contains;
using test::eventually;
using test::ids;
using test::message_of;
using test::simple_event;
using test::works_again;
using test::write_event;

inline std::shared_ptr<StoreConfig> config_at(const std::string& url, Options options = {}) {
  auto config = std::make_shared<StoreConfig>(url);
  config->description = "MySQL " + config->target.place();
  config->table = TableName::parse(options.table);
  config->options = std::move(options);
  return config;
}

// What a server that answers with an error sends: without TLS, to a text.
inline std::string error_packet(unsigned number, const std::string& state = "HY000") {
  std::string body = "\xff";
  body += static_cast<char>(number & 0xff);
  body += static_cast<char>(number >> 8);
  body += "#" + state + "injected by the test";
  return std::string{static_cast<char>(body.size()), '\0', '\0', '\1'} + body;
}

// A database of its own for each test.
class MysqlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_MYSQL();
    database_ = std::make_unique<test::Database>();
    sql_ = std::make_unique<test::Mysql>(url());
  }

  std::string url() const { return database_->url(); }
  std::shared_ptr<StoreConfig> config(Options options = {}) const {
    return config_at(url(), std::move(options));
  }

  // Past the library.
  test::Mysql& sql() { return *sql_; }

  std::shared_ptr<Store> open_store(Options options = {}) {
    return open_store_at(url(), std::move(options));
  }
  std::shared_ptr<Store> open_store_at(const std::string& url, Options options = {}) {
    if (!options.log) options.log = log_.log();
    return mysql::open(url, std::move(options));
  }

  testing::RecordingLog log_;

 private:
  std::unique_ptr<test::Database> database_;
  std::unique_ptr<test::Mysql> sql_;
};

}  // namespace outbox::mysql
