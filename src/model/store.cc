#include "outbox/spi/store.h"

#include <array>
#include <string>
#include <variant>

#include "outbox/error.h"

namespace outbox {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::pending:
      return "NEW";
    case Status::done:
      return "DONE";
    case Status::retry:
      return "RETRY";
    case Status::dead:
      return "DEAD";
  }
  return "UNKNOWN";
}

std::unique_ptr<Connection> Store::wrap(ExternalHandle handle) {
  constexpr std::array<const char*, 3> kLibraries{"libpq", "libmariadb", "SQLite"};
  static_assert(kLibraries.size() == std::variant_size_v<ExternalHandle>);
  throw MisuseError(std::string("outbox::wrap() was given a connection of ") +
                    kLibraries.at(handle.index()) + ", and the store is the " + description() +
                    ": give it a connection to the store's own database");
}

}  // namespace outbox
