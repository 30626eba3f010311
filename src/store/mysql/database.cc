#include "store/mysql/database.h"

#include <poll.h>

#include <chrono>
#include <string>
#include <utility>

#include "outbox/error.h"
#include "store/common/database_store.h"

namespace outbox::mysql {

bool Database::ensure_connected() {
  config_->check_process();
  // That the server closed it for its idleness is no failure.
  const bool is_outdated = stays_young_ && is_old();
  if (!is_outdated && (idle_limit_ ? healthy() : !lost())) return false;
  drop();
  made_at_ = newest();
  link_ = config_->connect(use_, limit_);
  ++connections_;
  session_.emplace(link_.handle.get(), config_, config_->max_packet, Session::Prepare::at_once);
  try {
    set_up();
  } catch (...) {
    drop();
    throw;
  }
  return true;
}

void Database::set_up() {
  if (registration_ != nullptr && registration_->is_elsewhere(link_.facts.server())) {
    throw RetryableError("this is not the server that the instance is registered at (" +
                         config_->description + "): it registers anew with its next renewal");
  }
  std::string settings;
  const auto set = [&](const std::string& name, std::chrono::seconds value) {
    settings += (settings.empty() ? "SET SESSION " : ", SESSION ") + name + " = " +
                std::to_string(value.count());
  };
  if (lock_limit_) set("innodb_lock_wait_timeout", *lock_limit_);
  if (idle_limit_) set("wait_timeout", std::chrono::ceil<std::chrono::seconds>(*idle_limit_));
  if (!settings.empty()) session_->run_text(settings, "set the connection up");
  if (on_connect_) on_connect_(link_.handle.get());
}

bool Database::healthy() const {
  if (lost()) return false;
  // A server speaks only when it is asked, or to say why it closes the connection.
  pollfd socket{.fd = mysql_get_socket(link_.handle.get()), .events = POLLIN, .revents = 0};
  return poll(&socket, 1, 0) == 0;
}

bool Database::make_ready() const { return !lost() && !session_->in_transaction(); }

void Database::drop() noexcept {
  if (getpid() == config_->pid) {
    // Before the statements, which need not be closed one by one then.
    link_.handle.reset();
  } else {
    // To say good-bye would end the connection of the parent.
    if (session_) session_->abandon();
    static_cast<void>(link_.handle.release());
  }
  session_.reset();
}

std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, Use use, std::size_t size,
                                std::string hint, std::chrono::milliseconds limit,
                                std::function<void(MYSQL*)> on_open) {
  return make_database_pool(*config, size, std::move(hint),
                            [config, use, limit, on_open = std::move(on_open)] {
                              auto database = std::make_unique<Database>(config, use);
                              if (limit.count() > 0) database->limit_calls(limit);
                              database->on_connect(on_open);
                              database->ensure_connected();
                              return database;
                            });
}

}  // namespace outbox::mysql
