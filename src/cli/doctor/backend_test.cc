#include "cli/doctor/backend.h"

#include <gtest/gtest.h>

#include "cli/errors.h"

namespace outbox::cli {
namespace {

std::string place_of(const char* url) { return find_backend(url, "t")->description(); }

std::string refusal(const char* url) {
  try {
    find_backend(url, "outbox_event");
  } catch (const std::exception& error) {
    EXPECT_EQ(exit_code_of(error), kConfiguration) << error.what();
    return error.what();
  }
  ADD_FAILURE() << url << " was accepted";
  return {};
}

TEST(FindBackend, TakesAPathOrAUrlForSqlite) {
  EXPECT_EQ(place_of("sqlite:shop.db"), "SQLite database shop.db, table t");
  EXPECT_EQ(place_of("SQLite:///var/shop.db"), "SQLite database /var/shop.db, table t");
  EXPECT_EQ(place_of("shop.db"), "SQLite database shop.db, table t");
  EXPECT_EQ(place_of("/var/a:b"), "SQLite database /var/a:b, table t");
  EXPECT_EQ(place_of("./a:b"), "SQLite database ./a:b, table t");
  EXPECT_EQ(place_of("c:db"), "SQLite database c:db, table t");
  EXPECT_EQ(place_of("file:shop.db?vfs=unix"), "SQLite database file:shop.db?vfs=unix, table t");
}

TEST(FindBackend, RefusesOthersWithoutShowingTheirPasswords) {
  for (const char* url : {"oracle://hunter2", "nosuch:hunter2", "http://u:hunter2@h"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("no store is known for"), std::string::npos) << message;
    EXPECT_NE(message.find("sqlite:PATH"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
  EXPECT_NE(refusal("").find("names no file"), std::string::npos);
  EXPECT_NE(refusal("sqlite:").find("names no file"), std::string::npos);
  EXPECT_NE(refusal("sqlite://host/x").find("no host"), std::string::npos);
}

// Without a scheme it would be the name of a file, and be shown.
TEST(FindBackend, RefusesTheSettingsOfAServerInPlaceOfAFile) {
  for (const char* text : {"host=h password=hunter2 dbname=d", "sqlite:host=h password=hunter2",
                           "file://u:hunter2@h/d", "sqlite:postgresql://u:hunter2@h/d"}) {
    const std::string message = refusal(text);
    EXPECT_NE(message, "") << text;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
  const auto encrypted = find_backend("file:shop.db?key=hunter2", "t");
  EXPECT_EQ(encrypted->description().find("hunter2"), std::string::npos);
  EXPECT_EQ(encrypted->arguments().find("hunter2"), std::string::npos);
  const std::string missing = encrypted->missing_file();
  EXPECT_NE(missing.find("shop.db"), std::string::npos) << "there should be none here";
  EXPECT_EQ(missing.find("hunter2"), std::string::npos) << missing;
}

#ifdef OUTBOX_WITH_POSTGRES

TEST(FindBackend, NamesAPostgresServerWithoutItsPassword) {
  const auto backend = find_backend(
      "Postgres://shop:hunter2@db.example:5433/orders?sslmode=require&password=hunter2", "x.t");
  EXPECT_EQ(backend->description(), "PostgreSQL database db.example:5433/orders, table x.t");
  EXPECT_EQ(backend->arguments(),
            "--db 'postgresql://shop@db.example:5433/orders?sslmode=require' --table x.t");
  for (const char* url : {"postgresql:hunter2", "postgres://u:hunter2@h/db?bogus=1",
                          "postgresql://u:hunter2@[h/db"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("the PostgreSQL URL cannot be understood"), std::string::npos);
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
}

#else

TEST(FindBackend, SaysThatItWasBuiltWithoutPostgres) {
  for (const char* url : {"postgres://u:hunter2@h/db", "postgresql:hunter2"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("built without PostgreSQL"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
}

#endif

#ifdef OUTBOX_WITH_MYSQL

TEST(FindBackend, NamesAMysqlServerWithoutItsPassword) {
  for (const char* scheme : {"mysql", "MariaDB"}) {
    const auto backend = find_backend(
        std::string(scheme) + "://shop:hunter2@db.example:3307/orders?ssl_mode=required", "x.t");
    EXPECT_EQ(backend->description(), "MySQL database db.example:3307/orders, table x.t");
  }
  EXPECT_EQ(
      find_backend("mysql://shop:hunter2@db.example/orders?ssl_mode=required", "x.t")->arguments(),
      "--db 'mysql://shop@db.example/orders?ssl_mode=required' --table x.t");
  for (const char* url :
       {"mysql:hunter2", "mariadb://u:hunter2@h/db?bogus=1", "mysql://u:hunter2@[h/db"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("the MySQL URL"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
}

TEST(FindBackend, TheSchemeSaysWhoseDialectIsPrinted) {
  EXPECT_NE(find_backend("mysql://", "t")->schema_sql().find("utf8mb4_0900_bin"),
            std::string::npos);
  EXPECT_NE(find_backend("mariadb://", "t")->schema_sql().find("utf8mb4_nopad_bin"),
            std::string::npos);
}

#else

TEST(FindBackend, SaysThatItWasBuiltWithoutMysql) {
  for (const char* url : {"mysql://u:hunter2@h/db", "mariadb:hunter2"}) {
    const std::string message = refusal(url);
    EXPECT_NE(message.find("built without MariaDB and MySQL"), std::string::npos) << message;
    EXPECT_EQ(message.find("hunter2"), std::string::npos) << message;
  }
}

#endif

TEST(ShellWord, CanBePasted) {
  EXPECT_EQ(shell_word("sqlite:/a/b-c_1.db"), "sqlite:/a/b-c_1.db");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's;"), "'it'\\''s;'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace outbox::cli
