#include "store/mysql/session.h"

#include <string>

#include "core/time_text.h"
#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

constexpr Sql kInsert{"insert a row",
                      "INSERT INTO {table} (number, words, bytes, at) VALUES (?, ?, ?, ?)"};
constexpr Sql kSelect{"read the rows",
                      "SELECT id, number, words, bytes, at FROM {table} ORDER BY id"};

// All that a byte can be, and what is special to SQL or to UTF-8.
std::string hard_text() {
  return std::string("' '' \" \\ \\' \\0 % _ ? {table} ; -- /* 日本 😀 \r\n\t") + '\0' + "end\\";
}
std::string every_byte() {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  return bytes;
}

const Time kNoon = std::chrono::sys_days{std::chrono::year{2026} / 3 / 1} + 12h + 1us;

class MysqlSessionTest : public MysqlTest {
 protected:
  void SetUp() override {
    MysqlTest::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    sql("CREATE TABLE outbox_event (id int AUTO_INCREMENT PRIMARY KEY, number bigint,"
        " words longtext, bytes longblob, at datetime(6))");
  }
};

// Each way to send a statement.
class MysqlSessionWaysTest : public MysqlSessionTest, public ::testing::WithParamInterface<bool> {
 protected:
  Database database() { return Database(environment({.prepare = GetParam()})); }
};

TEST_P(MysqlSessionWaysTest, WhatGoesInComesOut) {
  Database own = database();
  const Result inserted =
      own.run(kInsert, std::int64_t{-7}, hard_text(), Bytes{every_byte()}, kNoon);
  EXPECT_EQ(inserted.changed(), 1);
  EXPECT_EQ(inserted.insert_id(), 1);
  const std::optional<std::string_view> nothing;
  own.run(kInsert, std::optional<std::int64_t>{}, nothing, std::optional<Bytes>{},
          std::optional<Time>{});
  own.run(kInsert, INT64_MIN, "", Bytes{""}, kEarliestTime);
  own.run(kInsert, INT64_MAX, std::string(100'000, 'x'), Bytes{std::string(100'000, '\\')},
          kLatestTime);

  const Result read = own.run(kSelect);
  ASSERT_EQ(read.rows(), 4);
  EXPECT_EQ(read.integer(0, 1), -7);
  EXPECT_EQ(read.text(0, 2), hard_text());
  EXPECT_EQ(read.text(0, 3), every_byte());
  EXPECT_EQ(read.time(0, 4), kNoon);
  for (int column = 1; column < 5; ++column) EXPECT_TRUE(read.is_null(1, column));
  EXPECT_EQ(read.optional_integer(1, 1), std::nullopt);
  EXPECT_EQ(read.optional_time(1, 4), std::nullopt);
  EXPECT_EQ(read.integer(2, 1), INT64_MIN);
  EXPECT_FALSE(read.is_null(2, 2));
  EXPECT_EQ(read.text(2, 2), "");
  EXPECT_EQ(read.time(2, 4), kEarliestTime);
  EXPECT_EQ(read.integer(3, 1), INT64_MAX);
  EXPECT_EQ(read.text(3, 2).size(), 100'000);
  EXPECT_EQ(read.text(3, 3), std::string(100'000, '\\'));
  EXPECT_EQ(read.time(3, 4), kLatestTime);
}

INSTANTIATE_TEST_SUITE_P(All, MysqlSessionWaysTest, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Prepared" : "AsText"; });

}  // namespace
}  // namespace outbox::mysql
