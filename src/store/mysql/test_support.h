// What the tests of the MySQL store share.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "outbox/error.h"
#include "outbox/mysql.h"
#include "store/mysql/database.h"
#include "store/mysql/environment.h"
#include "support/services.h"

namespace outbox::mysql {

using namespace std::chrono_literals;

// The message of the error of kind E that the work must throw.
template <class E, class Work>
std::string message_of(Work work) {
  try {
    work();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline ::testing::AssertionResult contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" does not contain \"" << part << "\"";
}

inline std::string mysql_url() {
  const char* url = std::getenv("OUTBOX_TEST_MYSQL");
  return url == nullptr ? "" : url;
}

inline std::shared_ptr<Environment> environment_at(const std::string& url, Options options = {}) {
  auto environment = std::make_shared<Environment>(url);
  environment->description = "MySQL " + environment->target.place();
  environment->table = TableName::parse(options.table);
  environment->options = std::move(options);
  return environment;
}

// A database of its own for each test.
class MysqlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_SERVICE("OUTBOX_TEST_MYSQL");
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    name_ = "test_" + std::to_string(getpid()) + "_" +
            std::to_string(std::hash<std::string>{}(test->name()) % 100'000'000);
    server_ = std::make_unique<Database>(environment_at(mysql_url()));
    sql("CREATE DATABASE " + name_ + " CHARACTER SET utf8mb4");
    sql("USE " + name_);
  }
  void TearDown() override {
    if (server_) sql("DROP DATABASE IF EXISTS " + name_);
  }

  // Its tables are those of this database.
  std::shared_ptr<Environment> environment(Options options = {}) const {
    return environment_at(url(), std::move(options));
  }
  std::string url() const {
    const std::string url = mysql_url();
    return url.substr(0, url.rfind('/') + 1) + name_;
  }

  // Beside what is tested.
  Result sql(const std::string& text) { return server_->session().run_text(text, text); }

 private:
  std::string name_;
  std::unique_ptr<Database> server_;
};

}  // namespace outbox::mysql
