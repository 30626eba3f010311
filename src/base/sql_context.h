// What a session on a database has to be told by its owner.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// Whose statement it was that failed. A user's is a DatabaseError; advice on the library's tables
// is of no use there, unless it was about these: so are the statements of the consumer patterns.
enum class Whose { ours, users, users_on_our_tables };

// Names that the owner's SQL leaves open, and how messages call the database. Shared by the
// sessions of one owner, which keep it alive. Thread-safe.
class SqlContext {
 public:
  virtual ~SqlContext() = default;

  // For messages.
  virtual const std::string& where() const = 0;

  // Fills in the names: `{table}` and the like.
  virtual std::string expand(std::string_view text) const = 0;

  // Whether a message of the server is about a table of the owner's.
  virtual bool is_about_own_tables(std::string_view message) const = 0;

  // Whether statements may be kept prepared on the server.
  virtual bool may_prepare() const = 0;
};

}  // namespace outbox
