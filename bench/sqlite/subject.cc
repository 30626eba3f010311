#include "subject.h"

#include <cmath>

#include "outbox/sqlite.h"
#include "sqlite/bare.h"
#include "sqlite/parts.h"
#include "sqlite/scratch.h"

namespace outbox::bench {
namespace {

class SqliteSubject final : public Subject {
 public:
  std::string name() const override { return "sqlite"; }

  std::vector<Trait> traits() const override { return {Trait::embedded}; }

  Bars bars() const override {
    return {.drain_keep = 0.6,
            .drain_delete = 0.6,
            .drain_naive = 20,
            .write = 0.95,
            .ordered_p50 = 50,
            .unordered_p50 = 20,
            .process_p50 = 2'000,
            .in_process_p99 = 1'000};
  }

  std::vector<std::size_t> writers() const override { return {1}; }

  std::string about() override {
    return "databases in " + scratch_.folder().string() +
           "; synchronous = FULL; a 4 KiB write with fdatasync takes " +
           std::to_string(std::lround(scratch_.sync_cost())) + " us there";
  }

  std::string fresh() override { return scratch_.fresh(); }
  std::string copy(const std::string& path) override { return scratch_.copy(path); }
  void remove(const std::string& path) override { Scratch::remove(path); }

  void fill(const std::string& path, const LanePage& filling) override {
    fill_sqlite(path, filling);
  }
  void tidy_up(const std::string& path) override {
    BareSqlite(path).exec("PRAGMA wal_checkpoint(TRUNCATE)");
  }

  std::shared_ptr<Store> open(const std::string& path, Opening opening) override {
    const bool keep = opening.finish == Finish::update;
    return sqlite::open(path, {.on_done = keep ? sqlite::OnDone::keep : sqlite::OnDone::remove});
  }

  std::unique_ptr<BareConnection> connect(const std::string& path) override {
    return std::make_unique<BareSqlite>(path);
  }
  std::unique_ptr<BareWriter> writer(const std::string& path) override {
    return sqlite_writer(path);
  }
  double drain_naive(const std::string& path, std::size_t events) override {
    return sqlite_naive(path, events);
  }
  double drain_limit(const std::string& path, std::size_t events, Finish finish) override {
    return sqlite_limit(path, events, finish);
  }
  std::vector<Visited> visited(const std::string& path, std::size_t rows,
                               const std::function<void()>& /*poll*/) override {
    return sqlite_visited(path, rows);
  }

 private:
  Scratch scratch_;
};

}  // namespace

std::unique_ptr<Subject> sqlite_subject() { return std::make_unique<SqliteSubject>(); }

}  // namespace outbox::bench
