#include "store/postgres/database.h"

#include <poll.h>

#include "store/postgres/sql.h"

namespace outbox::postgres {

bool Database::ensure_connected() {
  environment_->check_process();
  if (!lost()) return false;
  drop();
  connection_ = environment_->connect();
  session_.emplace(connection_.get(), environment_, Session::Prepare::at_once);
  if (limit_) session_->limit_calls(*limit_);
  // Statements that are not kept are planned each time, for the table as it is; and
  // behind PgBouncer the setting would stay on a connection that is not ours.
  if (by_index_alone_ && environment_->options.prepare) {
    try {
      session_->run_script(std::string(sql::kByIndexAlone.text), sql::kByIndexAlone.purpose);
    } catch (...) {
      drop();
      throw;
    }
  }
  return true;
}

bool Database::healthy() const {
  if (lost()) return false;
  // An idle server says little, and why it closes before it does.
  pollfd socket{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0};
  while (poll(&socket, 1, 0) != 0) {
    if (PQconsumeInput(connection_.get()) == 0) return false;
    if (PQstatus(connection_.get()) != CONNECTION_OK) return false;
  }
  return true;
}

void Database::drop() noexcept {
  session_.reset();
  if (getpid() == environment_->pid) {
    connection_.reset();
  } else {
    // To say good-bye would end the connection of the parent.
    static_cast<void>(connection_.release());
  }
}

}  // namespace outbox::postgres
