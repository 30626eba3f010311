#include "store/postgres/database.h"

#include <poll.h>

#include <string>
#include <string_view>
#include <utility>

#include "outbox/error.h"
#include "store/common/database_store.h"
#include "store/postgres/sql.h"

namespace outbox::postgres {

namespace {

// More milliseconds than the server can count do not differ from none.
constexpr std::chrono::hours kAsGoodAsNone{24};

// Why a server closes an idle connection it says before it does, and libpq takes that for a
// notice. All other notices are too much talk.
void note_farewell(void* leaves, const PGresult* notice) {
  const char* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity != nullptr && std::string_view(severity) == "FATAL")
    *static_cast<bool*>(leaves) = true;
}

}  // namespace

bool Database::ensure_connected() {
  config_->check_process();
  // A user's transaction stays where it has begun.
  if (!lost() && (use_ == Use::users || !outdated())) return false;
  drop();
  made_at_ = config_->new_starts;
  connection_ = config_->connect(use_);
  server_leaves_ = false;
  PQsetNoticeReceiver(connection_.get(), note_farewell, &server_leaves_);
  session_.emplace(connection_.get(), config_, Session::Prepare::at_once);
  if (limits_.call) session_->limit_calls(*limits_.call);
  try {
    set_up();
    check_history();
    if (on_connect_) on_connect_(connection_.get());
  } catch (...) {
    drop();
    throw;
  }
  ++connections_;
  return true;
}

// Statements that are not kept are planned each time, for the table as it is; and behind
// PgBouncer a setting would stay on a connection that is not ours.
void Database::set_up() {
  const int version = PQserverVersion(connection_.get());
  if (config_->options.prepare) {
    session_->run_script(session_settings(use_, version, limits_, by_index_alone_), kSetUp.purpose);
  } else {
    session_->set_up_each_transaction(transaction_settings(use_, version, limits_));
  }
}

void Database::check_history() {
  if (history_ == nullptr || !config_->tells_history) return;
  const std::string history(session_->run(sql::kHistory).text(0, 0));
  if (!history_->differs_from(history)) return;
  throw RetryableError("this server has another past (timeline " + history +
                       ") than the one that the instance is registered at (" +
                       config_->description + "): it registers anew with its next renewal");
}

bool Database::outdated() const {
  return session_ && (session_->misplaced() || made_at_ != config_->new_starts);
}

bool Database::healthy() const {
  if (lost() || outdated()) return false;
  // An idle server says little, and why it closes before it does.
  pollfd socket{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0};
  while (poll(&socket, 1, 0) != 0) {
    if (PQconsumeInput(connection_.get()) == 0) return false;
    static_cast<void>(PQisBusy(connection_.get()));  // reads what has come, a farewell too
    if (server_leaves_ || PQstatus(connection_.get()) != CONNECTION_OK) return false;
  }
  return true;
}

bool Database::make_ready() const {
  return !lost() && !outdated() && PQtransactionStatus(handle()) == PQTRANS_IDLE;
}

void Database::drop() noexcept {
  const bool given_up = session_ && session_->given_up();
  session_.reset();
  if (getpid() != config_->pid) {
    // To say good-bye would end the connection of the parent.
    static_cast<void>(connection_.release());
  } else if (given_up) {
    config_->canceller.give_up(std::move(connection_));
  } else {
    connection_.reset();
  }
}

std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, Use use, std::size_t size,
                                std::string hint, std::chrono::milliseconds limit,
                                std::function<void(PGconn*)> on_open) {
  return make_database_pool(*config, size, std::move(hint),
                            [config, use, limit, on_open = std::move(on_open)] {
                              auto database = std::make_unique<Database>(config, use);
                              if (limit.count() > 0 && limit < kAsGoodAsNone)
                                database->limit_calls(limit);
                              database->on_connect(on_open);
                              database->ensure_connected();
                              return database;
                            });
}

}  // namespace outbox::postgres
