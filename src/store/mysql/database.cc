#include "store/mysql/database.h"

#include <poll.h>

#include <chrono>
#include <string>

namespace outbox::mysql {

bool Database::ensure_connected() {
  environment_->check_process();
  // That the server closed it for its idleness is no failure.
  if (idle_limit_ ? healthy() : !lost()) return false;
  drop();
  connection_ = environment_->connect(use_, limit_);
  session_.emplace(connection_.get(), environment_, Session::Prepare::at_once);
  try {
    set_up();
  } catch (...) {
    drop();
    throw;
  }
  return true;
}

void Database::set_up() {
  std::string settings;
  const auto set = [&](const std::string& name, std::chrono::seconds value) {
    settings += (settings.empty() ? "SET SESSION " : ", SESSION ") + name + " = " +
                std::to_string(value.count());
  };
  if (lock_limit_) set("innodb_lock_wait_timeout", *lock_limit_);
  if (idle_limit_) set("wait_timeout", std::chrono::ceil<std::chrono::seconds>(*idle_limit_));
  if (!settings.empty()) session_->run_text(settings, "set the connection up");
}

bool Database::healthy() const {
  if (lost()) return false;
  // A server speaks only when it is asked, or to say why it closes the connection.
  pollfd socket{.fd = mysql_get_socket(connection_.get()), .events = POLLIN, .revents = 0};
  return poll(&socket, 1, 0) == 0;
}

void Database::drop() noexcept {
  if (getpid() == environment_->pid) {
    // Before the statements, which need not be closed one by one then.
    connection_.reset();
  } else {
    // To say good-bye would end the connection of the parent.
    if (session_) session_->abandon();
    static_cast<void>(connection_.release());
  }
  session_.reset();
}

}  // namespace outbox::mysql
