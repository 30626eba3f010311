// SQL text, and what a session has to know to run it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace outbox {

// The first word of a statement, in capitals; blanks and comments are skipped.
std::string first_word(std::string_view text);

// Throws MisuseError if the statement begins or ends a transaction or savepoint:
// those are calls of a connection, so that events follow them.
void refuse_transaction_control(std::string_view text);

// Throws MisuseError unless it is `[A-Za-z_][A-Za-z0-9_]*`.
void check_table_name(const std::string& table);

// In quotes, those inside doubled.
std::string quoted_name(std::string_view name, char quote = '"');

// Fills in what SQL text of a store leaves open in braces: `fill(name)` for `{name}`.
template <class Fill>
std::string expand_names(std::string_view text, Fill fill) {
  std::string expanded;
  expanded.reserve(text.size() + 64);
  while (!text.empty()) {
    const auto open = text.find('{');
    expanded.append(text.substr(0, open));
    if (open == std::string_view::npos) break;
    const auto close = text.find('}', open);
    expanded.append(fill(text.substr(open + 1, close - open - 1)));
    text.remove_prefix(close + 1);
  }
  return expanded;
}

// `Head` and so many times `Row`, with commas in between: an INSERT of several rows, put together
// when it is compiled.
template <const std::string_view& Head, const std::string_view& Row, std::size_t Rows>
inline constexpr auto kRepeatedRow = [] {
  std::array<char, Head.size() + Rows*(Row.size() + 1) - 1> text{};
  auto end = std::copy(Head.begin(), Head.end(), text.begin());
  for (std::size_t row = 0; row < Rows; ++row) {
    if (row > 0) *end++ = ',';
    end = std::copy(Row.begin(), Row.end(), end);
  }
  return text;
}();

// Whose statement it was that failed. A user's is a DatabaseError; advice on the library's tables
// is of no use there, unless it was about these: so are the statements of the consumer patterns.
enum class Whose { ours, users, users_on_our_tables };

// While it lives, the statements of a session are the user's.
class AsUsers {
 public:
  explicit AsUsers(Whose& whose) : whose_(whose) { whose_ = Whose::users; }
  ~AsUsers() { whose_ = Whose::ours; }
  AsUsers(const AsUsers&) = delete;
  AsUsers& operator=(const AsUsers&) = delete;

 private:
  Whose& whose_;
};

// What the failure of a statement means for its caller.
enum class FailureKind { retryable, permanent, misuse };

// The error of that kind.
[[noreturn]] void throw_as(FailureKind kind, const std::string& message);

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

// Bytes as the C interfaces of the database clients take them.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  // A null pointer would pass for NULL.
  if (bytes.empty()) return "";
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace outbox
