#include "client/mysql/libmariadb.h"

#include <gtest/gtest.h>

#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

template <class E>
std::string message_for(unsigned number, std::string state = "HY000", std::string text = "Text") {
  return message_of<E>([&] {
    throw_failure({number, std::move(state), std::move(text)}, "do it", "here");
  });
}

TEST(MysqlFailure, SaysWhatHappenedWithWhichNumberAndWhatToDo) {
  EXPECT_EQ(message_for<RetryableError>(1213, "40001", "Deadlock found"),
            "cannot do it (here): Deadlock found [1213]; it collided with another transaction; "
            "start it over");
  EXPECT_EQ(message_for<PermanentError>(9999), "cannot do it (here): Text [9999]");
}

TEST(MysqlFailure, WhatMayPassIsToBeRetried) {
  for (const unsigned number : {1205U, 1213U, 1040U, 1053U, 1317U, 1969U, 3024U, 4031U, 1927U,
                                1290U, 2002U, 2003U, 2006U, 2013U, 2055U}) {
    message_for<RetryableError>(number);
  }
  message_for<RetryableError>(3999, "40001");
}

TEST(MysqlFailure, WhatWillNotPassIsNot) {
  for (const unsigned number : {1044U, 1045U, 1049U, 1142U, 1146U, 2059U}) {
    message_for<PermanentError>(number);
  }
  for (const unsigned number : {1062U, 1153U, 2014U, 2034U}) message_for<MisuseError>(number);
  message_for<MisuseError>(1064, "42000");
  message_for<MisuseError>(1406, "22001");
}

TEST(MysqlFailure, KeepsValuesOutOfMessages) {
  const std::string message = message_for<MisuseError>(
      1366, "22007", "Incorrect string value: 'secret' for column 'words' at row 1");
  EXPECT_TRUE(contains(message, "Incorrect string value"));
  EXPECT_FALSE(contains(message, "secret"));
}

TEST(MysqlFailure, TellsWhatBecameOfTheConnectionAndTheTransaction) {
  const auto lost = [](unsigned number) { return Failure{number}.lost_connection(); };
  const auto ended = [](unsigned number) { return Failure{number}.ended_transaction(); };
  for (const unsigned number : {2006U, 2013U, 2027U, 1053U, 1153U, 1927U, 4031U}) {
    EXPECT_TRUE(lost(number)) << number;
    EXPECT_TRUE(ended(number)) << number;
  }
  for (const unsigned number : {1205U, 1213U}) {
    EXPECT_FALSE(lost(number)) << number;
    EXPECT_TRUE(ended(number)) << number;
  }
  for (const unsigned number : {0U, 1062U, 1064U, 1317U, 2014U, 2034U}) {
    EXPECT_FALSE(lost(number)) << number;
    EXPECT_FALSE(ended(number)) << number;
  }
}

TEST(MysqlFailure, TellsAServerThatIsNotReadyFromAStatementThatIsForbidden) {
  const auto not_ready = [](unsigned number, const std::string& text = "Text") {
    return Failure{number, "HY000", text}.not_ready();
  };
  EXPECT_TRUE(not_ready(1047));
  EXPECT_TRUE(not_ready(1836));
  EXPECT_TRUE(not_ready(3032));
  EXPECT_TRUE(not_ready(1290, "The MariaDB server is running with the --read-only option"));
  EXPECT_TRUE(not_ready(1290, "running with the LOCK_WRITE_GROWTH or --super-read-only option"));
  EXPECT_FALSE(not_ready(1290, "running with the --secure-file-priv option"));
  EXPECT_FALSE(not_ready(1792));
  EXPECT_FALSE(not_ready(0));
}

TEST(MysqlFailure, OfMostCommitsThatFailNobodyKnowsWhetherTheyHappened) {
  const auto undone = [](unsigned number, const std::string& state = "HY000") {
    return Failure{number, state}.undoes_commit();
  };
  for (const unsigned number : {1205U, 1213U, 1290U, 1836U, 3101U, 9007U}) {
    EXPECT_TRUE(undone(number)) << number;
  }
  EXPECT_TRUE(undone(3999, "40001"));
  EXPECT_TRUE(undone(1062, "23000"));
  for (const unsigned number : {1047U, 1053U, 1105U, 1180U, 1317U, 1927U, 2013U}) {
    EXPECT_FALSE(undone(number)) << number;
  }
}

TEST(MysqlFailure, ALoginThatIsRefusedIsForGoodAndAHostThatIsAwayIsNot) {
  const auto connect = [](unsigned number, const std::string& text) {
    throw_not_connected({number, "HY000", text}, "here");
  };
  EXPECT_THROW(connect(1045, "Access denied"), PermanentError);
  EXPECT_THROW(connect(2026, "TLS/SSL error: self-signed certificate"), PermanentError);
  EXPECT_THROW(connect(2026, "TLS/SSL error: unexpected eof while reading"), RetryableError);
  EXPECT_TRUE(contains(message_of<RetryableError>([&] { connect(2002, "Can't connect"); }),
                       "check that the server runs"));
  EXPECT_THROW(connect(1040, "Too many connections"), RetryableError);
}

}  // namespace
}  // namespace outbox::mysql
