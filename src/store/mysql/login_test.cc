// Ways to log in and to be sure of the server.
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

class MysqlLoginTest : public MysqlTest {
 protected:
  void TearDown() override {
    if (!user_.empty()) sql().execute("DROP USER IF EXISTS " + user_ + "@'%'");
    MysqlTest::TearDown();
  }

  // A new user, who has this database.
  void create_user(const std::string& identified) {
    user_ = "u_" + std::to_string(getpid());
    sql().execute("DROP USER IF EXISTS " + user_ + "@'%'");
    sql().execute("CREATE USER " + user_ + "@'%' IDENTIFIED " + identified);
    sql().execute("GRANT ALL ON *.* TO " + user_ + "@'%'");
  }
  bool is_mariadb() { return sql().value("SELECT VERSION()").find("MariaDB") != std::string::npos; }

  // As the user, with another host if given.
  std::string url_of_user(const std::string& password, const std::string& options = "",
                          const std::string& host = "127.0.0.1") {
    return "mysql://" + user_ + ":" + password + "@" + host + ":" +
           std::to_string(test::port_of(test::mysql_url())) + "/outbox" + options;
  }
  static std::string name_at(const std::string& url) {
    Database database(config_at(url));
    return std::string(database.session().run_text("SELECT USER()", "ask").text(0, 0));
  }
  static bool encrypted_at(const std::string& url) {
    Database database(config_at(url));
    database.ensure_connected();
    return mysql_get_ssl_cipher(database.handle()) != nullptr;
  }

  // The file with the CA that signed the server's certificate.
  std::string ca() { return sql().value("SELECT @@ssl_ca"); }

  std::string user_;
};

TEST_F(MysqlLoginTest, ByEd25519OnMariaDb) {
  if (!is_mariadb()) GTEST_SKIP() << "MySQL has no such logins";
  if (sql()
          .query("SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'ed25519'")
          .empty()) {
    try {
      sql().execute("INSTALL SONAME 'auth_ed25519'");
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << "install mariadb-server, which brings it: " << error.what();
    }
  }
  create_user("VIA ed25519 USING PASSWORD('hunter2')");
  EXPECT_TRUE(name_at(url_of_user("hunter2")).starts_with(user_));
  EXPECT_THROW(name_at(url_of_user("hunter3")), PermanentError);
}

TEST_F(MysqlLoginTest, ByCachingSha2OnMySql) {
  if (is_mariadb()) GTEST_SKIP() << "MariaDB 10.11 has no such logins";
  create_user("WITH caching_sha2_password BY 'hunter2'");
  for (const char* mode : {"?ssl_mode=preferred", "?ssl_mode=disabled"}) {
    sql().execute("FLUSH PRIVILEGES");  // forgets who was there, so that the long way is taken
    EXPECT_TRUE(name_at(url_of_user("hunter2", mode)).starts_with(user_)) << mode;
    EXPECT_TRUE(name_at(url_of_user("hunter2", mode)).starts_with(user_)) << mode;
  }
  EXPECT_THROW(name_at(url_of_user("hunter3")), PermanentError);
}

TEST_F(MysqlLoginTest, ARefusalShowsTheUserAndNotThePassword) {
  create_user("BY 'hunter2'");
  const std::string message =
      message_of<PermanentError>([&] { name_at(url_of_user("hunter%33")); });
  EXPECT_TRUE(contains(message, user_));
  EXPECT_TRUE(contains(message, "check the user, the password"));
  EXPECT_FALSE(contains(message, "hunter"));
}

TEST_F(MysqlLoginTest, SpecialCharactersInAPassword) {
  create_user("BY 'p@:/?#&= %'");
  EXPECT_TRUE(name_at(url_of_user("p%40%3A%2F%3F%23%26%3D%20%25")).starts_with(user_));
}

TEST_F(MysqlLoginTest, AnUnknownDatabaseIsForGood) {
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { name_at(url() + "_not"); }), "[1049]"));
}

TEST_F(MysqlLoginTest, ConnectionsAreEncryptedWhereTheServerCan) {
  create_user("BY 'hunter2'");
  EXPECT_TRUE(encrypted_at(url_of_user("hunter2")));
  EXPECT_TRUE(encrypted_at(url_of_user("hunter2", "?ssl_mode=required")));
  EXPECT_FALSE(encrypted_at(url_of_user("hunter2", "?ssl_mode=disabled")));
}

TEST_F(MysqlLoginTest, AServerIsJudgedByItsCertificate) {
  create_user("BY 'hunter2'");
  const std::string file = "ssl_ca=" + ca();
  const auto by = [&](const std::string& options, const std::string& host) {
    return encrypted_at(url_of_user("hunter2", "?" + options, host));
  };
  EXPECT_TRUE(by(file + "&ssl_mode=verify_ca", "127.0.0.1"));
  EXPECT_THROW(by(file, "127.0.0.1"), PermanentError);
  EXPECT_TRUE(by(file, "localhost"));
  EXPECT_TRUE(contains(
      message_of<PermanentError>([&] { by("ssl_mode=verify_identity", "localhost"); }), "ssl_ca"));
}

TEST_F(MysqlLoginTest, ByASocket) {
  const std::string socket(sql().value("SELECT @@socket"));
  create_user("BY 'hunter2'");
  Database database(config_at(url_of_user("hunter2", "?socket=" + socket)));
  database.ensure_connected();
  EXPECT_TRUE(contains(mysql_get_host_info(database.handle()), "socket"));
}

}  // namespace
}  // namespace outbox::mysql
