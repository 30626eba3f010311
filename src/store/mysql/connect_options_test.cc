#include "client/mysql/connect_options.h"

#include <gtest/gtest.h>

#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

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
