// What happens on an SQLite file between a program's look and the change that follows it.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

namespace outbox::test {

// Sees the statements of every connection that this process opens while it lives, and lets a
// test do something when one of them is about to begin a write transaction: it has read, and
// does not hold the lock yet. One at a time. Thread-safe.
class SqliteWrites {
 public:
  SqliteWrites() {
    present_ = this;
    sqlite3_auto_extension(extension());
  }
  ~SqliteWrites() {
    sqlite3_cancel_auto_extension(extension());
    present_ = nullptr;
  }
  SqliteWrites(const SqliteWrites&) = delete;
  SqliteWrites& operator=(const SqliteWrites&) = delete;

  // Once; on the thread that is about to write, by another connection than that one's.
  void before_next(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    armed_ = true;
  }

  // Whether a write has come since.
  bool came() const { return !armed_; }

 private:
  using Extension = void (*)();

  static Extension extension() { return reinterpret_cast<Extension>(&SqliteWrites::on_open); }

  static int on_open(sqlite3* db, char** /*error*/, const void* /*api*/) {
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, &SqliteWrites::on_statement, nullptr);
  }

  static int on_statement(unsigned /*event*/, void* /*context*/, void* /*statement*/, void* text) {
    SqliteWrites* const self = present_;
    if (self == nullptr || !self->armed_) return 0;
    if (std::string_view(static_cast<const char*>(text)) != "BEGIN IMMEDIATE") return 0;
    std::function<void()> work;
    {
      const std::lock_guard lock(self->mutex_);
      work = std::exchange(self->work_, {});
      self->armed_ = false;
    }
    if (work) work();
    return 0;
  }

  static inline std::atomic<SqliteWrites*> present_ = nullptr;

  std::atomic<bool> armed_ = false;
  std::mutex mutex_;
  std::function<void()> work_;
};

}  // namespace outbox::test
