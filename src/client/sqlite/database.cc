#include "client/sqlite/database.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/quote.h"
#include "base/url.h"
#include "outbox/error.h"

namespace outbox::sqlite {
namespace {

// A URL or settings that were meant for a server: they may hold a password, and would become the
// name of a file.
void refuse_other_stores(const std::string& path) {
  const std::string scheme = scheme_of(path);
  const std::string rest = path.substr(std::min(scheme.size(), path.size()));
  if (scheme == "file") {
    if (!rest.starts_with("://") || rest.starts_with(":///") || rest.starts_with("://localhost/")) {
      return;
    }
    throw MisuseError(
        "a file:// URL must not name a host: write file:PATH, or file:///ABSOLUTE/PATH");
  }
  if (!scheme.empty() && rest.starts_with("://")) {
    throw MisuseError("a path of an SQLite database begins with " + quote(scheme + "://") +
                      ", which is a URL: pass it to outbox::open(), or to open() of its own store");
  }
  if (has_password_setting(path)) {
    throw MisuseError(
        "a path of an SQLite database has a password in it, like connection settings: "
        "pass those to open() of their own store");
  }
}

}  // namespace

void check_database_path(const std::string& path) {
  const auto has = [&](const char* text) { return path.find(text) != std::string::npos; };
  const bool is_uri = path.starts_with("file:");
  if (path.empty() || path == ":memory:" ||
      (is_uri && (has(":memory:") || has("mode=memory") || has("vfs=memdb")))) {
    throw MisuseError(quote(without_secrets(path)) +
                      " names a database without a file: use outbox::memory::open(), or give a "
                      "path");
  }
  refuse_other_stores(path);
}

std::string path_of_url(std::string_view url) {
  if (scheme_of(url) != kUrlScheme) return std::string(url);
  std::string_view path = url.substr(kUrlScheme.size() + 1);
  if (path.starts_with("//")) {
    path.remove_prefix(2);
    if (!path.starts_with("/")) {
      throw MisuseError(
          "a sqlite:// URL must not name a host: write sqlite:PATH, or sqlite:///ABSOLUTE/PATH");
    }
  }
  if (path.empty()) throw MisuseError("the store's URL names no file; write sqlite:PATH");
  return std::string(path);
}

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr Sql kBegin{"begin a transaction", "BEGIN IMMEDIATE"};
constexpr Sql kCommit{"commit the transaction", "COMMIT"};

// Long enough for a burst, short enough to be given back afterwards.
constexpr const char* kWalSizeLimit = "PRAGMA journal_size_limit = 67108864";

std::string in_ms(milliseconds duration) { return std::to_string(duration.count()) + " ms"; }

}  // namespace

Database::Database(std::shared_ptr<const DatabaseContext> context, bool may_create)
    : context_(std::move(context)) {
  open(may_create);
  set_up();
}

Database::~Database() {
  if (getpid() != context_->pid) {
    // Closing in a forked child could undo the parent's locks and delete its
    // write-ahead log. What the child has of it ends with the child.
    static_cast<void>(opened_.release());
    return;
  }
  if (began()) rollback();
}

void Database::open(bool may_create) {
  // A new connection would lead to the file that is there now.
  context_->check_file();
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_EXRESCODE | (may_create ? SQLITE_OPEN_CREATE : 0);
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(context_->path.c_str(), &db, flags, nullptr);
  DatabaseHandle handle(db);  // SQLite makes one even if it fails
  if (code != SQLITE_OK) throw_failure(db, code, "open the database", context_->description);
  opened_ = std::make_unique<Opened>(std::move(handle), context_);
}

void Database::set_up() {
  sqlite3_busy_handler(handle(), &Database::on_busy, this);
  switch_to_wal();
  if (sqlite3_db_readonly(handle(), "main") != 0) {
    throw PermanentError("cannot write to " + context_->description +
                         ": the file is read-only; change its permissions, or the path's mode");
  }
  run_script(context_->synchronous ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
             "set the durability");
  run_script(kWalSizeLimit, "limit the write-ahead log");
}

void Database::switch_to_wal() {
  // Two processes that switch at the same moment are told "busy" at once,
  // without a call of the busy handler: so wait here as well.
  const auto deadline = steady_clock::now() + context_->wait_timeout;
  std::string mode;
  for (;;) {
    Statement statement(handle(), "PRAGMA journal_mode = WAL", "switch to write-ahead logging",
                        context_->description);
    Run run(statement);
    const int code = run.try_step();
    if (code == SQLITE_ROW) {
      mode = run.text(0);
      break;
    }
    if (code != SQLITE_BUSY || steady_clock::now() >= deadline) run.fail();
    std::this_thread::sleep_for(milliseconds{1});
  }
  if (mode != "wal" && sqlite3_db_readonly(handle(), "main") == 0) {
    throw PermanentError("cannot use " + context_->description + ": its journal mode is '" + mode +
                         "' and can't be changed to WAL; put it on a local file system that can "
                         "share memory");
  }
}

int Database::on_busy(void* self, int tries) {
  // Quick at first: most transactions of others are over in less than a
  // millisecond. SQLite's own handler would begin with a whole one.
  Database& db = *static_cast<Database*>(self);
  const Instant now = steady_clock::now();
  if (tries == 0) db.waiting_since_ = now;
  const Instant deadline = db.deadline_.value_or(db.waiting_since_ + db.context_->wait_timeout);
  if (now >= deadline) return 0;
  const auto pause = std::min(microseconds{50} * (1 + tries), microseconds{2'000});
  std::this_thread::sleep_for(std::min<steady_clock::duration>(pause, deadline - now));
  return 1;
}

void Database::run_script(const std::string& text, std::string_view purpose) {
  const int code = sqlite3_exec(handle(), text.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw_failure(handle(), code, purpose, context_->description);
}

void Database::take_turn(Instant deadline) {
  context_->check_process();
  if (!context_->turn.take(deadline)) {
    throw RetryableError("cannot begin a transaction (" + context_->description + "): waited " +
                         in_ms(context_->wait_timeout) +
                         " behind other transactions of this process, the present one open for " +
                         in_ms(context_->turn.held_for()) + " and " +
                         std::to_string(context_->turn.waiting()) + " more waiting" +
                         "; keep transactions short, or raise sqlite::Options::wait_timeout");
  }
  has_turn_ = true;
}

void Database::give_turn_back() noexcept {
  if (!has_turn_) return;
  has_turn_ = false;
  context_->turn.give_back();
}

void Database::begin() {
  context_->check_file();
  Run run((*this)[kBegin]);
  const Instant deadline = steady_clock::now() + context_->wait_timeout;
  take_turn(deadline);
  deadline_ = deadline;
  const int code = run.try_step();
  deadline_.reset();
  if (code == SQLITE_DONE) return;
  give_turn_back();
  if (code != SQLITE_BUSY) run.fail();
  throw RetryableError(
      "cannot begin a transaction (" + context_->description + "): waited " +
      in_ms(context_->wait_timeout) +
      " for another process, or a connection that is not this store's, to end its transaction; "
      "find out who holds it, or raise sqlite::Options::wait_timeout");
}

void Database::commit() {
  Run run((*this)[kCommit]);
  if (run.try_step() == SQLITE_DONE) {
    give_turn_back();
    return;
  }
  const bool undone = certainly_undone();
  try {
    run.fail_as_users();  // of what it did, only a deferred constraint can fail now
  } catch (const Error& error) {
    rollback();
    if (undone) throw;
    throw OutcomeUnknownError(std::string(error.what()) +
                              "; whether the transaction happened is not known");
  }
}

bool Database::certainly_undone() {
  // Still open: it can be rolled back.
  if (session().in_transaction()) return true;
  // SQLite has given it up. The record that makes it a transaction is written
  // last: if a write failed, it is not there. If anything failed later, such as
  // the disk's answer, a recovery may or may not find it.
  const int code = sqlite3_extended_errcode(handle());
  return (code & 0xff) == SQLITE_FULL || code == SQLITE_IOERR_WRITE;
}

void Database::rollback() noexcept {
  // Errors such as a full disk have rolled it back already. If this ROLLBACK
  // fails, SQLite is about to do it anyway.
  if (session().in_transaction()) {
    sqlite3_exec(handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  give_turn_back();
}

void WriteTransaction::commit() {
  try {
    db_.commit();
  } catch (const OutcomeUnknownError& error) {
    throw RetryableError(error.what());
  }
}

std::shared_ptr<Pool> make_pool(const std::shared_ptr<const DatabaseContext>& context,
                                PoolLimits limits, std::function<void(sqlite3*)> on_open,
                                std::unique_ptr<Database> first) {
  return make_pool_of(
      std::move(limits), context->description,
      [context, on_open = std::move(on_open)] {
        auto database = std::make_unique<Database>(context);
        if (on_open) on_open(database->handle());
        return database;
      },
      std::move(first));
}

}  // namespace outbox::sqlite
