// SQLite, for the command line: the database, and what `outbox doctor` looks at in it.
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/url.h"
#include "cli/doctor/backend.h"
#include "cli/errors.h"
#include "client/sqlite/database.h"
#include "outbox/sqlite.h"
#include "store/sqlite/store_config.h"

namespace outbox::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMegabyte = 1'000'000;
constexpr std::uintmax_t kDiskIsLow = 500 * kMegabyte;
constexpr std::uintmax_t kDiskIsFull = 20 * kMegabyte;

// The store limits the file to 64 MiB when nothing pins the log.
constexpr std::uintmax_t kLogIsLong = 256 * kMegabyte;

std::string size_text(std::uintmax_t bytes) {
  char text[48];
  if (bytes < kMegabyte) {
    std::snprintf(text, sizeof text, "%.0f kB", static_cast<double>(bytes) / 1e3);
  } else if (bytes < 10 * kMegabyte) {
    std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  } else if (bytes < 10'000 * kMegabyte) {
    std::snprintf(text, sizeof text, "%.0f MB", static_cast<double>(bytes) / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.0f GB", static_cast<double>(bytes) / 1e9);
  }
  return text;
}

std::string last_error() { return std::strerror(errno); }

struct CloseConnection {
  void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
};

// A connection that can change nothing.
class ReadOnly {
 public:
  explicit ReadOnly(const std::string& path) {
    sqlite3* db = nullptr;
    code_ = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
    db_.reset(db);
    sqlite3_busy_timeout(db, 5'000);
  }

  // The file behind a path or a URI, absolute.
  std::string file() const {
    const char* name = sqlite3_db_filename(db_.get(), "main");
    return name == nullptr ? "" : name;
  }

  // The first column of all rows. Empty if it failed: see error().
  std::vector<std::string> column(const char* sql) {
    std::vector<std::string> values;
    if (code_ != SQLITE_OK) return values;
    sqlite3_stmt* prepared = nullptr;
    code_ = sqlite3_prepare_v2(db_.get(), sql, -1, &prepared, nullptr);
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> statement(prepared,
                                                                               &sqlite3_finalize);
    if (code_ != SQLITE_OK) return values;
    while ((code_ = sqlite3_step(prepared)) == SQLITE_ROW) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(prepared, 0));
      values.emplace_back(text == nullptr ? "" : text);
    }
    if (code_ == SQLITE_DONE) code_ = SQLITE_OK;
    return values;
  }

  bool is_missing() const {
    return (code_ & 0xff) == SQLITE_CANTOPEN && sqlite3_system_errno(db_.get()) == ENOENT;
  }

  bool failed() const { return code_ != SQLITE_OK; }
  std::string error() const { return sqlite3_errmsg(db_.get()); }

 private:
  std::unique_ptr<sqlite3, CloseConnection> db_;
  int code_ = SQLITE_OK;
};

Finding check_file(const std::string& file) {
  const std::string shown = without_secrets(file);  // it may be a URL
  struct stat facts {};
  if (stat(file.c_str(), &facts) != 0) {
    return fatal(shown + ": " + last_error(), "check --db; outbox migrate up makes a new database");
  }
  if (!S_ISREG(facts.st_mode)) return fatal(shown + " is not a regular file", "check --db");
  if (access(file.c_str(), R_OK) != 0) {
    return fatal(shown + " cannot be read: " + last_error(),
                 "run as its owner, or change its mode");
  }
  if (access(file.c_str(), W_OK) != 0) {
    return failure(shown + " cannot be written: " + last_error(),
                   "run as its owner, or change its mode; an engine must write here");
  }
  return fine(shown + ", " + size_text(static_cast<std::uintmax_t>(facts.st_size)) +
              ", readable and writable");
}

std::string folder_of(const std::string& file) {
  const std::string folder = fs::path(file).parent_path();
  return folder.empty() ? "." : folder;
}

Finding check_folder(const std::string& file) {
  const std::string folder = folder_of(file);
  if (access(folder.c_str(), W_OK | X_OK) == 0) {
    return fine(folder + " is writable, for the log and the lock file");
  }
  return failure(folder + " is not writable: " + last_error(),
                 "change the folder's mode: SQLite makes its log, and the engine its lock file, "
                 "beside the database");
}

Finding check_disk(const std::string& file) {
  struct statvfs facts {};
  if (statvfs(folder_of(file).c_str(), &facts) != 0) return warning("unknown: " + last_error());
  const std::uintmax_t free = std::uintmax_t{facts.f_bavail} * facts.f_frsize;
  const std::string says = size_text(free) + " free";
  if (free >= kDiskIsLow) return fine(says);
  const std::string advice =
      "make room: commits fail when the disk is full (outbox purge removes old rows)";
  return free < kDiskIsFull ? failure(says, advice) : warning(says, advice);
}

Finding check_journal(ReadOnly& db, const std::string& file) {
  const auto mode = db.column("PRAGMA journal_mode");
  if (db.failed() || mode.empty()) {
    return fatal("the database cannot be read: " + db.error(),
                 "check its permissions, that it is an SQLite database, and who has it locked");
  }
  if (mode.front() != "wal") {
    return warning("the journal mode is " + mode.front() + ", not WAL",
                   "outbox migrate up, or the first engine, switches it");
  }
  std::error_code none;
  const std::uintmax_t log = fs::file_size(file + "-wal", none);
  if (none || log <= kLogIsLong) return fine("write-ahead log (WAL)");
  return warning("WAL, but the log has grown to " + size_text(log),
                 "some process keeps a read transaction open; find it and end it");
}

Finding check_integrity(ReadOnly& db) {
  const auto lines = db.column("PRAGMA quick_check(3)");
  if (!db.failed() && lines.size() == 1 && lines.front() == "ok") {
    return fine("quick_check found nothing wrong");
  }
  return fatal(lines.empty() ? db.error() : lines.front(),
               "stop writing, copy the file, restore a backup (sqlite3 FILE .recover saves what "
               "can be saved)");
}

Finding check_lock_file(const std::string& file, const std::string& table) {
  const std::string lock = file + "-" + table + ".owner";
  struct stat facts {};
  if (stat(lock.c_str(), &facts) != 0) {
    if (errno == ENOENT) return fine("none: no engine has run here yet, or it was deleted");
    return failure(lock + ": " + last_error());
  }
  if (access(lock.c_str(), R_OK) == 0) return fine(lock);
  return failure(lock + " cannot be opened: " + last_error(),
                 "give the file the mode and owner of the database: an engine under this user "
                 "could not take over");
}

// The file of that path or URI, absolute if it is a path, if there is none; else empty. For
// messages: without secrets.
std::string missing_sqlite_file(const std::string& path) {
  if (!ReadOnly(path).is_missing()) return {};
  std::error_code none;
  const fs::path absolute = fs::absolute(path, none);
  return without_secrets(path.starts_with("file:") || none ? path : absolute.string());
}

constexpr std::string_view kFindBroken = R"sql(
SELECT event_id, CASE typeof(status) WHEN 'integer' THEN status END
FROM {table} INDEXED BY {broken} WHERE {is_broken}
ORDER BY seq LIMIT 1000
)sql";

constexpr std::string_view kFixBroken = R"sql(
UPDATE {table}
SET status = CASE WHEN status IN (0, 1, 2, 3) THEN status ELSE 3 END,
    hold = CASE WHEN status IN (0, 2)
      THEN -max(CASE typeof(available_at) WHEN 'integer' THEN available_at ELSE 1 END, 1) END,
    done_at = CASE WHEN status IN (0, 2) THEN NULL WHEN typeof(done_at) = 'integer' THEN done_at
      ELSE CAST(strftime('%s', 'now') AS INTEGER) * 1000000 END,
    last_error = CASE WHEN status IN (0, 1, 2, 3) THEN last_error
      ELSE 'outbox doctor --repair: the status was none of 0 to 3; the event may have been '
        || 'delivered' END
WHERE event_id = ? AND {is_broken}
)sql";

class SqliteBackend final : public Backend {
 public:
  SqliteBackend(std::string path, std::string table)
      : path_(std::move(path)), table_(std::move(table)) {
    sqlite::check_database_path(path_);  // before anything shows it
  }

  std::string description() const override { return sqlite::describe_database(path_, table_); }
  std::string arguments() const override {
    return store_arguments("sqlite:" + without_secrets(path_), table_);
  }
  std::string missing_file() const override { return missing_sqlite_file(path_); }
  SchemaStatus schema_status() override {
    std::error_code none;
    if (fs::is_directory(path_, none)) {  // SQLite would call it a failed disk
      throw ConfigurationError(without_secrets(path_) +
                               " is a folder: --db takes the path of a file");
    }
    return sqlite::schema_status(path_, table_);
  }
  SchemaStatus migrate(std::optional<Progress> progress) override {
    check_by_row(progress);
    return sqlite::migrate(path_, table_);
  }
  std::string schema_sql(std::optional<Progress> progress) const override {
    check_by_row(progress);
    return sqlite::schema_sql(table_);
  }

  std::shared_ptr<Store> open() override {
    check_schema(*this, schema_status());
    return sqlite::open(path_, {.table = table_, .migrate = false});
  }

  std::vector<Check> checks(const CheckOptions& options) override {
    const auto db = std::make_shared<ReadOnly>(path_);
    const std::string file = db->file().empty() ? path_ : db->file();
    const auto check = [](const char* name, auto find) -> Check {
      return {.name = name, .find = [find] { return std::vector{find()}; }};
    };
    std::vector<Check> checks{
        check("file", [file] { return check_file(file); }),
        check("folder", [file] { return check_folder(file); }),
        check("disk", [file] { return check_disk(file); }),
        check("lock file", [file, table = table_] { return check_lock_file(file, table); }),
        check("journal", [db, file] { return check_journal(*db, file); })};
    if (options.integrity) {
      checks.push_back(check("integrity", [db] { return check_integrity(*db); }));
    }
    checks.push_back(schema_check(*this));
    return checks;
  }

  RepairSql repair_sql() const override {
    return {.find = sqlite::expand(kFindBroken, table_), .fix = sqlite::expand(kFixBroken, table_)};
  }

 private:
  const std::string path_;  // or one of SQLite's URIs
  const std::string table_;
};

}  // namespace

std::unique_ptr<Backend> make_sqlite_backend(std::string path, std::string table) {
  return std::make_unique<SqliteBackend>(std::move(path), std::move(table));
}

}  // namespace outbox::cli
