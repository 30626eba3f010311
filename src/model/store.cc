#include "outbox/spi/store.h"

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

}  // namespace outbox
