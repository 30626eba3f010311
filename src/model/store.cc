#include "outbox/spi/store.h"

#include <array>
#include <string>
#include <variant>

#include "base/bounded.h"
#include "model/store.h"
#include "outbox/error.h"

namespace outbox {
namespace {

void check_positive(const char* name, std::chrono::milliseconds time) {
  if (time.count() > 0) return;
  throw MisuseError(std::string("InstanceOptions::") + name + " must be positive, got " +
                    std::to_string(time.count()) + " ms");
}

}  // namespace

InstanceOptions checked(InstanceOptions options) {
  check_positive("lease", options.lease);
  if (options.row_claims) check_positive("lock_timeout", options.lock_timeout);
  options.lease = internal::bounded(options.lease);
  options.lock_timeout = internal::bounded(options.lock_timeout);
  return options;
}

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
