// What the tests' clients of all servers do alike, and what a lost message does to their COMMITs.
// Each instantiates both suites with a description of itself:
//
//   struct OnServer {
//     using Client = ...;  // Sql, Mysql
//     using Place = ...;   // Schema, Database
//     static constexpr const char* kVariable, kNoRows, kMissingTable, kPlaces;
//     static std::string url(), url_in(const Place&), elsewhere();
//     static std::string wait_for(const std::string& table);  // until nobody changes it
//     static bool is_broken(const Client&);
//   };
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/rows.h"
#include "support/services.h"
#include "support/tcp_proxy.h"

namespace outbox::test {

template <class Server>
class ClientTest : public ::testing::Test {
 protected:
  using Client = typename Server::Client;

  void SetUp() override { OUTBOX_NEEDS_SERVICE(Server::kVariable); }

  static std::string message_of(Client& client, const std::string& statement) {
    try {
      client.execute(statement);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "no error";
  }
};
TYPED_TEST_SUITE_P(ClientTest);

TYPED_TEST_P(ClientTest, QueriesGiveTextAndNulls) {
  typename TypeParam::Client sql;
  EXPECT_EQ(sql.query("SELECT 1, NULL, '' UNION ALL SELECT 2, 'x', NULL ORDER BY 1"),
            (std::vector<Row>{{"1", std::nullopt, ""}, {"2", "x", std::nullopt}}));
  EXPECT_TRUE(sql.query(TypeParam::kNoRows).empty());
  EXPECT_EQ(sql.value("SELECT 'ab'"), "ab");
  EXPECT_THROW(sql.value(TypeParam::kNoRows), std::runtime_error);
  EXPECT_THROW(sql.value("SELECT 1, 2"), std::runtime_error);
  EXPECT_THROW(sql.value("SELECT NULL"), std::runtime_error);
}

TYPED_TEST_P(ClientTest, ErrorsCarryTheServersMessageAndItsState) {
  typename TypeParam::Client sql;
  for (const char* statements :
       {"SELECT * FROM no_such_table", "SELECT 1; DROP TABLE no_such_table"}) {
    const std::string message = this->message_of(sql, statements);
    EXPECT_NE(message.find(TypeParam::kMissingTable), std::string::npos) << message;
    EXPECT_NE(message.find("no_such_table"), std::string::npos) << message;
    EXPECT_EQ(sql.value("SELECT 1"), "1") << "usable afterwards";
  }
}

TYPED_TEST_P(ClientTest, AServerThatIsNotThereIsAnError) {
  const std::string elsewhere = TypeParam::elsewhere();
  EXPECT_THROW(typename TypeParam::Client{elsewhere}, std::runtime_error);
}

TYPED_TEST_P(ClientTest, APlaceIsFreshAndGoesWithAllThatIsInIt) {
  typename TypeParam::Client sql;
  const auto exists = [&](const std::string& name) {
    return sql.value("SELECT count(*) FROM " + std::string(TypeParam::kPlaces) + " = '" + name +
                     "'") == "1";
  };
  std::string first;
  {
    const typename TypeParam::Place one;
    const typename TypeParam::Place two;
    EXPECT_NE(one.name(), two.name());
    first = one.name();
    EXPECT_TRUE(exists(first));
    EXPECT_TRUE(exists(two.name()));
    sql.execute("CREATE TABLE " + first + ".t(i int); INSERT INTO " + first + ".t VALUES (1)");
    EXPECT_EQ(sql.value("SELECT i FROM " + first + ".t"), "1");
  }
  EXPECT_FALSE(exists(first));
}

REGISTER_TYPED_TEST_SUITE_P(ClientTest, QueriesGiveTextAndNulls,
                            ErrorsCarryTheServersMessageAndItsState, AServerThatIsNotThereIsAnError,
                            APlaceIsFreshAndGoesWithAllThatIsInIt);

// Behind the proxy.
template <class Server>
class ClientFaultsTest : public ::testing::Test {
 protected:
  using Client = typename Server::Client;

  void SetUp() override {
    OUTBOX_NEEDS_SERVICE(Server::kVariable);
    place_ = std::make_unique<typename Server::Place>();
    direct_ = std::make_unique<Client>(Server::url_in(*place_));
    proxy_ = std::make_unique<TcpProxy>("127.0.0.1", port_of(Server::url()));
    table_ = place_->name() + ".t";
    direct_->execute("CREATE TABLE " + table_ + "(i int)");
  }

  std::string far_url() { return with_port(Server::url_in(*place_), proxy_->port()); }

  // Through the proxy, with a row that is not committed yet.
  std::unique_ptr<Client> begun() {
    auto sql = std::make_unique<Client>(far_url());
    sql->execute("BEGIN");
    sql->execute("INSERT INTO " + table_ + " VALUES (1)");
    return sql;
  }

  std::string rows() { return direct_->value("SELECT count(*) FROM " + table_); }

  // Until the server has noticed that a transaction's client is gone; a lock that is
  // held for longer is an error.
  void wait_for_other_transactions() { direct_->execute(Server::wait_for(table_)); }

  std::unique_ptr<typename Server::Place> place_;
  std::unique_ptr<Client> direct_;
  std::unique_ptr<TcpProxy> proxy_;
  std::string table_;
};
TYPED_TEST_SUITE_P(ClientFaultsTest);

TYPED_TEST_P(ClientFaultsTest, ACommitWhoseReplyIsDroppedDidCommit) {
  const auto sql = this->begun();
  this->proxy_->drop_reply("COMMIT");
  EXPECT_THROW(sql->execute("COMMIT"), std::runtime_error);
  EXPECT_TRUE(TypeParam::is_broken(*sql));
  EXPECT_EQ(this->proxy_->drops(), 1);
  EXPECT_EQ(this->rows(), "1");
}

TYPED_TEST_P(ClientFaultsTest, ACommitWhoseRequestIsDroppedDidNot) {
  const auto sql = this->begun();
  this->proxy_->drop_request("COMMIT");
  EXPECT_THROW(sql->execute("COMMIT"), std::runtime_error);
  EXPECT_TRUE(TypeParam::is_broken(*sql));
  EXPECT_EQ(this->proxy_->drops(), 1);
  this->wait_for_other_transactions();
  EXPECT_EQ(this->rows(), "0");
}

TYPED_TEST_P(ClientFaultsTest, ConnectionsThatAreCutRollBackAndNewOnesWork) {
  const auto sql = this->begun();
  this->proxy_->cut();
  EXPECT_THROW(sql->execute("COMMIT"), std::runtime_error);
  const auto next = this->begun();
  next->execute("COMMIT");
  this->wait_for_other_transactions();
  EXPECT_EQ(this->rows(), "1");
}

REGISTER_TYPED_TEST_SUITE_P(ClientFaultsTest, ACommitWhoseReplyIsDroppedDidCommit,
                            ACommitWhoseRequestIsDroppedDidNot,
                            ConnectionsThatAreCutRollBackAndNewOnesWork);

}  // namespace outbox::test
