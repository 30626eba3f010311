// What the sessions of a server are set to.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace outbox::postgres {

// Whose work a connection does. A server, a role, a database and a URL have a say in the
// settings of a session; on users' connections they are respected, all others are the
// library's own.
enum class Use : std::uint8_t { users, operators, engine };

// Limits by which the server itself ends a call or a wait whose client is gone.
struct Limits {
  std::optional<std::chrono::milliseconds> call{};  // how long the caller waits
  std::optional<std::chrono::milliseconds> lock{};  // by default most of that
};

// SQL that sets a new connection to what its use relies on: whatever changes a result or
// stops a statement. Values go in binary, so what concerns texts of times or numbers does
// not matter. Empty if there is nothing to set.
std::string session_settings(Use use, int server_version, const Limits& limits,
                             bool by_index_alone);

// The same for the transaction that it stands in, for connections that a pooler gives to
// somebody else after each: `begin` makes one of the right kind, alone or as the first
// statement of a text. Empty if there is nothing to set.
struct TransactionSettings {
  std::string begin{};
  std::string begin_text{};
  std::string rest{};

  bool empty() const { return begin.empty(); }
};
TransactionSettings transaction_settings(Use use, int server_version, const Limits& limits);

}  // namespace outbox::postgres
