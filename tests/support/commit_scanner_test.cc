#include "support/commit_scanner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace outbox::test {
namespace {

using namespace std::string_literals;

std::string big_endian(std::size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

std::string untyped(const std::string& body) { return big_endian(body.size() + 4) + body; }
std::string message(char type, const std::string& body) { return type + untyped(body); }

const std::string kSslRequest = untyped(big_endian(80'877'103));
const std::string kStartup = untyped(big_endian(196'608) + "user\0x\0\0"s);
const std::string kSync = message('S', "");

std::string query(const std::string& sql) { return message('Q', sql + '\0'); }
std::string parse(const std::string& name, const std::string& sql) {
  return message('P', name + '\0' + sql + "\0\0\0"s);
}
std::string bind(const std::string& statement) {
  return message('B', "\0"s + statement + "\0\0\0\0\0\0\0"s);
}
const std::string kExecute = message('E', "\0\0\0\0\0"s);

std::string packet(int number, const std::string& body) {
  std::string bytes;
  for (int shift = 0; shift < 24; shift += 8)
    bytes += static_cast<char>(body.size() >> shift & 0xff);
  return bytes + static_cast<char>(number) + body;
}

// How many of the bytes it needs to see one, for each COMMIT; fed a byte at a time.
std::vector<std::size_t> found_in(Wire wire, const std::string& bytes) {
  CommitScanner scanner(wire);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (scanner.take(bytes.substr(i, 1))) found.push_back(i + 1);
  }
  return found;
}

TEST(CommitScanner, KnowsWhichTextsEndWithACommit) {
  for (const char* sql :
       {"COMMIT", "commit;", " COMMIT AND NO CHAIN", "BEGIN; UPDATE x; COMMIT ;"}) {
    EXPECT_TRUE(ends_with_commit(sql)) << sql;
  }
  for (const char* sql : {"", "BEGIN ISOLATION LEVEL READ COMMITTED", "COMMITTED",
                          "COMMIT; SELECT 1", "INSERT INTO x VALUES ('COMMIT')", "COMM"}) {
    EXPECT_FALSE(ends_with_commit(sql)) << sql;
  }
}

TEST(CommitScanner, FindsASimpleQueryOfPostgres) {
  const std::string before = kSslRequest + kStartup + query("BEGIN ISOLATION LEVEL READ COMMITTED");
  const std::string all = before + query("COMMIT");
  EXPECT_EQ(found_in(Wire::postgres, all + query("SELECT 'COMMIT'")), std::vector{all.size()});
}

TEST(CommitScanner, FindsTheExecutionAndNotThePreparationOfACommit) {
  const std::string prepared = kStartup + parse("c", "COMMIT") + parse("", "SELECT 1") + kSync;
  const std::string other = prepared + bind("") + kExecute + kSync;
  const std::string all = other + bind("c") + kExecute;
  EXPECT_EQ(found_in(Wire::postgres, all + kSync), std::vector{all.size()});
}

TEST(CommitScanner, FindsATextQueryOfMysql) {
  const std::string before = packet(1, "\3COMMIT") + packet(0, "\3SET x = 'READ-COMMITTED'");
  const std::string all = before + packet(0, "\3COMMIT AND NO CHAIN NO RELEASE");
  EXPECT_EQ(found_in(Wire::mysql, all + packet(0, "\1")), std::vector{all.size()});
}

TEST(CommitScanner, TakesManyMessagesInOnePiece) {
  CommitScanner scanner(Wire::postgres);
  EXPECT_FALSE(scanner.take(kStartup + query("BEGIN")));
  EXPECT_TRUE(scanner.take(query("SELECT 1") + query("COMMIT") + query("SELECT 2")));
  EXPECT_FALSE(scanner.take(query("SELECT 3")));
}

TEST(CommitScanner, FindsNothingInWhatItDoesNotKnow) {
  EXPECT_TRUE(found_in(Wire::unknown, query("COMMIT")).empty());
}

TEST(CommitAnswer, IsThereWhenPostgresSaysThatItHasCommittedOrIsReady) {
  for (const std::string& end :
       {message('C', "COMMIT\0"s), message('C', "ROLLBACK\0"s), message('Z', "I")}) {
    CommitAnswer answer(Wire::postgres);
    answer.begin();
    EXPECT_FALSE(answer.take(message('C', "INSERT 0 1\0"s)));
    EXPECT_FALSE(answer.take(end.substr(0, 4)));
    EXPECT_TRUE(answer.take(end.substr(4)));
  }
  EXPECT_TRUE(CommitAnswer(Wire::mysql).take(packet(1, "\0"s)));
}

}  // namespace
}  // namespace outbox::test
