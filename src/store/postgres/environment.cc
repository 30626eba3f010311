#include "store/postgres/environment.h"

#include <algorithm>
#include <random>

#include "outbox/error.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{5'000};
constexpr int kOldestServer = 130'000;

// Up to a quarter more: those who lost the server together must not come back
// together.
milliseconds with_jitter(milliseconds pause) {
  thread_local std::mt19937 random{std::random_device{}()};
  return pause + milliseconds{std::uniform_int_distribution<milliseconds::rep>{
                     0, pause.count() / 4}(random)};
}

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

// Servers talk too much for a log: notices are not errors.
void ignore_notice(void* /*unused*/, const PGresult* /*notice*/) {}

}  // namespace

void Reconnection::check(Instant now) {
  MutexLock lock(mutex_);
  if (now >= next_) return;
  const auto left = std::chrono::duration_cast<milliseconds>(next_ - now);
  throw RetryableError(why_ + "; the next attempt is made in " + std::to_string(left.count() + 1) +
                       " ms");
}

void Reconnection::failed(const std::string& why, Instant now) {
  MutexLock lock(mutex_);
  pause_ = std::clamp(pause_ * 2, kFirstPause, kLongestPause);
  next_ = now + with_jitter(pause_);
  why_ = why;
}

void Reconnection::succeeded() {
  MutexLock lock(mutex_);
  pause_ = milliseconds{0};
  next_ = {};
}

ConnectionHandle Environment::connect() const {
  check_process();
  reconnection.check(steady_clock::now());
  ConnectionHandle connection = target.connect();
  try {
    if (PQstatus(connection.get()) != CONNECTION_OK) {
      throw_not_connected(connection.get(), description);
    }
    check_server(connection.get(), description);
  } catch (const Error& error) {
    reconnection.failed(error.what(), steady_clock::now());
    throw;
  }
  reconnection.succeeded();
  // The environment (PGCLIENTENCODING) or the URL may have asked for another one.
  if (PQclientEncoding(connection.get()) != pg_char_to_encoding("UTF8") &&
      PQsetClientEncoding(connection.get(), "UTF8") != 0) {
    throw_failure(connection.get(), nullptr, "switch to UTF-8", description);
  }
  PQsetNoticeReceiver(connection.get(), ignore_notice, nullptr);
  return connection;
}

void Environment::check_process() const {
  if (getpid() == pid) return;
  throw MisuseError("the store was opened before fork() (" + description +
                    "): open it anew in the child");
}

}  // namespace outbox::postgres
