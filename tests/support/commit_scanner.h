// Finds COMMIT in what a client sends to its database.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace outbox::test {

// What is spoken on a connection. Encrypted, it is unknown.
enum class Wire { unknown, postgres, mysql };

// Whether the last statement of the text is COMMIT. Semicolons in literals end statements
// here: it is for tests, which know what they send.
bool ends_with_commit(std::string_view sql);

// Reads one connection's requests from its first byte on, in pieces of any size. A COMMIT
// is the one that the server is to run: a simple query or the execution of a portal on
// PostgreSQL, a text query on MySQL. Not thread-safe.
class CommitScanner {
 public:
  explicit CommitScanner(Wire wire) : wire_(wire) {}

  // Whether a COMMIT is complete with the next piece, and had not been before.
  bool take(std::string_view piece);

 private:
  // Each takes the first message off the buffer; false if there is no whole one.
  bool take_postgres(bool& commit);
  bool take_mysql(bool& commit);
  bool is_commit(char type, std::string_view body);

  const Wire wire_;
  std::string buffer_;
  bool started_ = false;  // PostgreSQL: the messages without a type are over
  std::map<std::string, bool, std::less<>> statements_;  // PostgreSQL: which are COMMIT
  std::map<std::string, bool, std::less<>> portals_;
};

// Reads the answers. Not thread-safe.
class CommitAnswer {
 public:
  explicit CommitAnswer(Wire wire) : wire_(wire) {}

  void begin() { last_.clear(); }

  // Whether the answer to the COMMIT that was sent before begin() is there with this piece.
  bool take(std::string_view piece);

 private:
  const Wire wire_;
  std::string last_;
};

}  // namespace outbox::test
