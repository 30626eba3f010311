// What open() makes of the database that it finds.
#include "outbox/open.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "client/mysql/connect_options.h"
#include "store/mysql/mysql_store.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

class MysqlOpenTest : public MysqlTest {
 protected:
  // Every column, index and check of the database.
  std::vector<test::Row> objects() {
    return sql().query(
        "SELECT 'column', table_name, column_name, column_type, is_nullable, "
        "  coalesce(column_default, ''), collation_name, extra, generation_expression "
        "FROM information_schema.columns WHERE table_schema = database() "
        "UNION ALL SELECT 'index', table_name, index_name, column_name, seq_in_index, non_unique, "
        "  '', '', '' FROM information_schema.statistics WHERE table_schema = database() "
        "UNION ALL SELECT 'check', constraint_name, check_clause, '', '', '', '', '', '' "
        "FROM information_schema.check_constraints WHERE constraint_schema = database() "
        "ORDER BY 1, 2, 3, 4, 5");
  }
  void drop_everything() {
    for (const char* suffix :
         {"", "_instance", "_shard", "_archive", "_flush", "_inbox", "_version", "_creation",
          "_unblocked", "_consumption", "_migration"}) {
      sql().execute(std::string("DROP TABLE IF EXISTS outbox_event") + suffix);
    }
  }
  Server server() {
    return contains(sql().value("SELECT version()"), "MariaDB") ? Server::mariadb : Server::mysql;
  }

  // As a client sends them.
  std::vector<std::string> statements() {
    const std::string script = schema_sql(server());
    std::vector<std::string> result;
    std::size_t at = 0;
    for (auto end = script.find(";\n"); end != std::string::npos; end = script.find(";\n", at)) {
      result.push_back(script.substr(at, end - at));
      at = end + 2;
    }
    return result;
  }
};

TEST_F(MysqlOpenTest, ByUrlTheOptionsAreThoseOfTheScheme) {
  const Scheme mine = scheme({.table = "other"});
  const std::string rest = url().substr(url().find(':'));
  const auto store = outbox::open("mysql" + rest, {mine});
  EXPECT_TRUE(contains(store->description(), "table other"));
  for (const char* name : {"mariadb", "MySQL"}) {
    EXPECT_EQ(outbox::open(name + rest, {mine})->description(), store->description());
  }
}

// The server commits every statement by itself.
TEST_F(MysqlOpenTest, AMigrationThatWasInterruptedAnywhereIsFinishedByTheNext) {
  open_store();
  const auto complete = objects();
  ASSERT_FALSE(complete.empty());
  const std::vector<std::string> all = statements();
  ASSERT_GT(all.size(), 5U);
  for (std::size_t number = 1; number < all.size(); ++number) {
    drop_everything();
    for (std::size_t i = 0; i < number; ++i) sql().execute(all[i]);
    EXPECT_THROW(open_store({.migrate = false}), PermanentError) << number;
    write_event(*open_store(), simple_event("e"));
    EXPECT_EQ(objects(), complete) << number;
    EXPECT_EQ(sql().value("SELECT count(*) FROM outbox_event_shard"), "16") << number;
  }
}

TEST_F(MysqlOpenTest, ATableMayBeInAnotherDatabaseThanTheOneOfTheUrl) {
  const test::Database other;
  const auto store = open_store({.table = other.name() + ".events"});
  write_event(*store, simple_event("e"));
  EXPECT_TRUE(objects().empty());
  EXPECT_EQ(sql().value("SELECT count(*) FROM " + other.name() + ".events"), "1");
  EXPECT_TRUE(schema_status(url(), other.name() + ".events").up_to_date());
}

TEST_F(MysqlOpenTest, OnOpenIsCalledForTransactionsAloneAndBeforeThem) {
  const auto store = open_store({.on_open = [](st_mysql* connection) {
    mysql_query(connection, "SET time_zone = '+05:45'");
  }});
  const auto zone = [](Connection& connection) {
    return connection.query("SELECT @@time_zone", {}).at(0).get<std::string>(0);
  };
  EXPECT_EQ(zone(*begun(*store)), "+05:45");
  EXPECT_EQ(store->admin().count({}), 0);
}

TEST_F(MysqlOpenTest, ARowThatContradictsItselfIsRefused) {
  const auto store = open_store();
  write_event(*store, simple_event("e"));
  for (const char* change : {"status = 1", "status = 7", "hold = NULL", "status = -1",
                             "status = 3, hold = 0", "status = 3, hold = -5"}) {
    EXPECT_THROW(sql().execute(std::string("UPDATE outbox_event SET ") + change),
                 std::runtime_error)
        << change;
  }
  for (const char* change : {"status = 2, hold = 5", "status = 3", "hold = NULL", "status = 1"}) {
    EXPECT_NO_THROW(sql().execute(std::string("UPDATE outbox_event SET ") + change)) << change;
  }
}

TEST_F(MysqlOpenTest, RowsThatContradictThemselvesDoNotStopAMigration) {
  open_store();
  sql().execute(test::Mysql(url()).value("SELECT version()").find("MariaDB") != std::string::npos
                    ? "ALTER TABLE outbox_event DROP CONSTRAINT outbox_event_state"
                    : "ALTER TABLE outbox_event DROP CHECK outbox_event_state");
  sql().execute("DELETE FROM outbox_event_migration WHERE version > 3");
  sql().execute(
      "INSERT INTO outbox_event (event_id, event_type, payload, status) VALUES ('bad', 'T', '{}',"
      " 1)");
  const auto store = open_store();
  EXPECT_TRUE(log_.contains("rows of outbox_event contradict themselves"));
  EXPECT_TRUE(schema_status(url()).up_to_date());
  write_event(*store, simple_event("good"));
}

// Ways to log in and to be sure of the server.

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

std::string shown(const std::string& url) { return ConnectOptions(url).public_url(); }

TEST(MysqlTarget, TakesAUrlApart) {
  const Settings all = Settings::parse(
      "mysql://sh%40p:p%3Aw%2F@db1:3307,db2,[::1]:3308/or%20ders?ssl_mode=required"
      "&connect_timeout=3&read_timeout=4&write_timeout=5&ssl_cert=%2Fc&tls_version=TLSv1.3");
  EXPECT_EQ(all.user, "sh@p");
  EXPECT_EQ(all.password, "p:w/");
  ASSERT_EQ(all.hosts.size(), 3);
  EXPECT_EQ(all.hosts[0].name, "db1");
  EXPECT_EQ(all.hosts[0].port, 3307);
  EXPECT_EQ(all.hosts[1].name, "db2");
  EXPECT_EQ(all.hosts[1].port, 3306);
  EXPECT_EQ(all.hosts[2].name, "::1");
  EXPECT_EQ(all.hosts[2].port, 3308);
  EXPECT_EQ(all.database, "or ders");
  EXPECT_EQ(all.ssl_mode, SslMode::required);
  EXPECT_EQ(all.connect_timeout, 3s);
  EXPECT_EQ(all.read_timeout, 4s);
  EXPECT_EQ(all.write_timeout, 5s);
  EXPECT_EQ(all.files_and_lists.at("ssl_cert"), "/c");
  EXPECT_EQ(all.files_and_lists.at("tls_version"), "TLSv1.3");
}

TEST(MysqlTarget, LeavesOutWhatCanBeLeftOut) {
  const Settings none = Settings::parse("mariadb://");
  EXPECT_EQ(none.user, std::nullopt);
  EXPECT_EQ(none.password, std::nullopt);
  ASSERT_EQ(none.hosts.size(), 1);
  EXPECT_EQ(none.hosts[0].name, "localhost");
  EXPECT_EQ(none.hosts[0].port, 3306);
  EXPECT_EQ(none.database, "");
  EXPECT_EQ(Settings::parse("MySQL://u@h").user, "u");
  EXPECT_EQ(Settings::parse("mysql://u:@h").password, "");
  EXPECT_EQ(Settings::parse("mysql://:3307").hosts[0].port, 3307);
}

TEST(MysqlTarget, JudgesTheServerByACaUnlessToldHow) {
  const auto mode = [](const std::string& options) {
    return Settings::parse("mysql://h/d" + options).ssl_mode;
  };
  EXPECT_EQ(mode(""), SslMode::preferred);
  EXPECT_EQ(mode("?ssl_ca=/ca.pem"), SslMode::verify_identity);
  EXPECT_EQ(mode("?ssl_capath=/ca"), SslMode::verify_identity);
  EXPECT_EQ(mode("?ssl_ca=/ca.pem&ssl_mode=verify_ca"), SslMode::verify_ca);
  EXPECT_EQ(mode("?ssl-mode=DISABLED"), SslMode::disabled);
  EXPECT_THROW(mode("?ssl_ca=/ca.pem&ssl_mode=required"), MisuseError);
  EXPECT_THROW(mode("?ssl_mode=verify_ca"), MisuseError);
}

TEST(MysqlTarget, NamesTheOptionThatItDoesNotTake) {
  const auto refused = [](const std::string& options) {
    return message_of<MisuseError>([&] { Settings::parse("mysql://u:hunter2@h/d?" + options); });
  };
  EXPECT_TRUE(contains(refused("sslmode=require"), "\"sslmode\""));
  EXPECT_TRUE(contains(refused("sslmode=require"), "ssl_mode"));
  EXPECT_TRUE(contains(refused("ssl_mode=on"), "verify_identity"));
  EXPECT_TRUE(contains(refused("read_timeout=5s"), "seconds"));
  EXPECT_TRUE(contains(refused("read_timeout="), "seconds"));
  EXPECT_TRUE(contains(refused("read_timeout=-1"), "seconds"));
}

TEST(MysqlTarget, ShowsAUrlWithoutItsPasswordThatMeansTheSame) {
  EXPECT_EQ(shown("mysql://shop:hunter2@db:3307/orders?ssl_mode=required"),
            "mysql://shop@db:3307/orders?ssl_mode=required");
  EXPECT_EQ(ConnectOptions("mysql://shop:hunter2@db:3307/orders").place(), "db:3307/orders");
  for (const std::string url :
       {"mysql://u%40x@h/a%20b", "mariadb://u@a:3307,b/d", "mysql://[::1]:3307/d", "mysql://h",
        "mysql://localhost/d?socket=/run/mysqld.sock",
        "mysql://h/d?ssl_mode=verify_ca&ssl_ca=/ca%20s&connect_timeout=3&read_timeout=4"}) {
    EXPECT_EQ(shown(url), url);
  }
}

TEST(MysqlTarget, SaysNothingOfAUrlThatIsNotUnderstood) {
  for (const std::string url :
       {"mysql://u:hunter2@ter2@h/d", "mysql://u:hun/hunter2@h/d", "mysql://u:hun?hunter2@h/d",
        "mysql://u:hun?hunter2=1@h/d", "mysql://u:hun/d#hunter2", "mysql://u:hunter2/d",
        "mysql://u:hunter2%@h/d", "mysql://u:hunter2%00@h/d", "mysql://u:hunter2@h:port/d",
        "mysql://u:hunter2@h:0/d", "mysql://u:hunter2@[::1/d", "mysql:u:hunter2@h/d",
        "postgres://u:hunter2@h/d", "hunter2"}) {
    const std::string message = message_of<MisuseError>([&] { ConnectOptions target(url); });
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
    EXPECT_TRUE(contains(message, "mysql://USER")) << url;
  }
}

}  // namespace

}  // namespace outbox::mysql
