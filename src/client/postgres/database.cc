#include "client/postgres/database.h"

#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

using std::chrono::steady_clock;

// Beyond it a connection is merely closed: the limits on the server's side do the rest.
constexpr std::size_t kMostWaiting = 16;

// How long the end of the store waits for a server that answers.
constexpr std::chrono::milliseconds kFarewell{500};

using CancelHandle = std::unique_ptr<PGcancel, Destroyer<PQfreeCancel>>;

}  // namespace

Canceller::~Canceller() {
  if (getpid() != pid_) return;
  const auto deadline = steady_clock::now() + kFarewell;
  const MutexLock lock(work_->mutex);
  while (work_->at_work && work_->ended.wait_until(work_->mutex, deadline)) {
  }
}

void Canceller::give_up(ConnectionHandle connection) noexcept {
  try {
    const MutexLock lock(work_->mutex);
    if (work_->waiting.size() >= kMostWaiting) return;
    work_->waiting.push_back(std::move(connection));
    if (work_->at_work) return;
    std::thread([work = work_] { run(work); }).detach();
    work_->at_work = true;
  } catch (const std::exception&) {
    // No memory or no thread: the server finds out for itself, later.
  }
}

void Canceller::run(const std::shared_ptr<Work>& work) noexcept {
  name_this_thread("outbox-cancel");
  while (true) {
    ConnectionHandle next;
    {
      const MutexLock lock(work->mutex);
      if (work->waiting.empty()) {
        work->at_work = false;
        work->ended.notify_all();
        return;
      }
      next = std::move(work->waiting.front());
      work->waiting.pop_front();
    }
    // Closed only then: a pooler forgets with a connection what it is to be cancelled by.
    if (const CancelHandle cancel(PQgetCancel(next.get())); cancel) {
      std::array<char, 256> ignored{};
      PQcancel(cancel.get(), ignored.data(), ignored.size());
    }
  }
}

namespace {

constexpr int kOldestServer = 130'000;

void check_server(PGconn* connection, const std::string& where) {
  const int version = PQserverVersion(connection);
  if (version < kOldestServer) {
    throw PermanentError("the server is PostgreSQL " + std::to_string(version / 10'000) + " (" +
                         where + "); this library needs 13 or later");
  }
  const char* encoding = PQparameterStatus(connection, "server_encoding");
  if (encoding != nullptr && std::string_view(encoding) != "UTF8") {
    throw PermanentError("the database's encoding is " + std::string(encoding) + " (" + where +
                         "): events need UTF8; create the database with ENCODING 'UTF8'");
  }
}

// Whether it is the server that takes no writes: an operator has said so in its
// configuration. What a role, a database or a URL say is another matter (settings.h).
bool server_is_read_only(PGconn* connection) {
  const char* by_default = PQparameterStatus(connection, "default_transaction_read_only");
  if (by_default != nullptr && std::string_view(by_default) == "off") return false;
  const ResultHandle found(PQexec(connection,
                                  "SELECT FROM pg_settings "
                                  "WHERE name = 'default_transaction_read_only' "
                                  "AND setting = 'on' AND source IN ('configuration file', "
                                  "'command line', 'environment variable', 'global')"));
  return PQntuples(found.get()) > 0;
}

// Servers talk too much for a log: notices are not errors.
void ignore_notice(void* /*unused*/, const PGresult* /*notice*/) {}

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

std::string place_of(PGconn* connection) {
  const auto text = [](const char* part) { return std::string(part == nullptr ? "" : part); };
  return text(PQhost(connection)) + " " + text(PQhostaddr(connection)) + " " +
         text(PQport(connection)) + " " + text(PQdb(connection));
}

ConnectionHandle DatabaseContext::connect(Use use) const {
  const bool wished = use == Use::users || (use == Use::operators && target.has_wish());
  check_process();
  server->reconnection.check(steady_clock::now());
  ConnectionHandle connection =
      target.connect(wished ? ConnectOptions::Server::as_wished : ConnectOptions::Server::primary);
  try {
    const auto check_connected = [&] {
      if (PQstatus(connection.get()) == CONNECTION_OK) return;
      throw_not_connected(connection.get(), description);
    };
    check_connected();
    if (!wished && server_is_read_only(connection.get())) {
      connection = target.connect(ConnectOptions::Server::read_write);
      check_connected();
    }
    check_server(connection.get(), description);
  } catch (const Error& error) {
    server->reconnection.failed(error.what(), steady_clock::now());
    throw;
  }
  server->reconnection.succeeded();
  // The environment (PGCLIENTENCODING) or the URL may have asked for another one.
  if (PQclientEncoding(connection.get()) != pg_char_to_encoding("UTF8") &&
      PQsetClientEncoding(connection.get(), "UTF8") != 0) {
    throw_failure(connection.get(), nullptr, "switch to UTF-8", description);
  }
  PQsetNoticeReceiver(connection.get(), ignore_notice, nullptr);
  return connection;
}

bool Database::ensure_connected() {
  context_->check_process();
  // A user's transaction stays where it has begun.
  if (!lost() && (use_ == Use::users || !outdated())) return false;
  drop();
  made_at_ = context_->server->new_starts;
  connection_ = context_->connect(use_);
  server_leaves_ = false;
  PQsetNoticeReceiver(connection_.get(), note_farewell, &server_leaves_);
  session_.emplace(connection_.get(), context_, Session::Prepare::at_once);
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
  if (context_->may_prepare()) {
    session_->run_script(session_settings(use_, version, limits_, by_index_alone_), kSetUp.purpose);
  } else {
    session_->set_up_each_transaction(transaction_settings(use_, version, limits_));
  }
}

void Database::check_history() {
  if (registration_ == nullptr || !context_->server->tells_history) return;
  const std::string history(session_->run(kTimeline).text(0, 0));
  if (history.empty() || !registration_->is_elsewhere(history)) return;
  throw RetryableError("this server has another history (timeline " + history +
                       ") than the one that the instance is registered at (" +
                       context_->description + "): it registers again with its next renewal");
}

bool Database::outdated() const {
  return session_ && (session_->misplaced() || made_at_ != context_->server->new_starts);
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
  if (getpid() != context_->pid) {
    // To say good-bye would end the connection of the parent.
    static_cast<void>(connection_.release());
  } else if (given_up) {
    context_->server->canceller.give_up(std::move(connection_));
  } else {
    connection_.reset();
  }
}

std::shared_ptr<Pool> make_pool(const std::shared_ptr<const DatabaseContext>& context, Use use,
                                PoolLimits limits, std::chrono::milliseconds limit,
                                std::function<void(PGconn*)> on_open) {
  return make_pool_of(std::move(limits), context->description,
                      [context, use, limit, on_open = std::move(on_open)] {
                        auto database = std::make_unique<Database>(context, use);
                        if (limit.count() > 0 && limit < kAsGoodAsNone)
                          database->limit_calls(limit);
                        database->on_connect(on_open);
                        database->ensure_connected();
                        return database;
                      });
}

}  // namespace outbox::postgres
