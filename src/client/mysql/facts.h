// What a server says of itself.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "client/mysql/libmariadb.h"

namespace outbox::mysql {

// The variables of a server that the library looks at, as of the moment when a connection
// to it was made; of the session where it has its own.
class Facts {
 public:
  Facts() = default;

  // By name, in small letters. `status` is that of a node of a Galera cluster, empty for
  // other servers.
  Facts(std::map<std::string, std::string, std::less<>> variables,
        std::map<std::string, std::string, std::less<>> status);

  // Asks the server. Throws as throw_failure() does.
  static Facts read(MYSQL* connection, const std::string& where);

  // The same, but only how much it takes and whether it takes writes: by a question that no
  // setting of a user's session can spoil.
  static Facts read_least(MYSQL* connection, const std::string& where);

  bool has(std::string_view variable) const { return variables_.contains(variable); }

  // Empty if the server does not have it.
  const std::string& value(std::string_view variable) const;
  bool is_on(std::string_view variable) const;
  std::size_t max_packet() const;

  bool is_galera() const { return !status_.empty(); }

  // Why it is of no use although it answers: "read_only is ON". Empty if it takes writes.
  std::string unready() const;

  // As the columns of history_columns() say it.
  std::string server() const;

 private:
  std::map<std::string, std::string, std::less<>> variables_;
  std::map<std::string, std::string, std::less<>> status_;
};

}  // namespace outbox::mysql
