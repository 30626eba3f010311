#include "subject.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "outbox/postgres.h"
#include "postgres/bare.h"
#include "postgres/parts.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kConnections = 16;

// A database of the server for each; their names are URLs.
class PostgresSubject final : public Subject {
 public:
  explicit PostgresSubject(std::string url) : url_(std::move(url)) {}

  std::string name() const override { return "postgres"; }

  std::vector<Trait> traits() const override {
    return {Trait::server, Trait::insert_at_commit, Trait::notify};
  }

  Bars bars() const override {
    return {.drain_keep = 0.6,
            .drain_delete = 0.5,
            .drain_naive = 20,
            .row_claims_naive = 8,
            .write = 0.95,
            .ordered_p50 = 250,
            .unordered_p50 = 30,
            .process_p50 = 1'000,
            .steady_process_p50 = 700,
            .steady_process_p99 = 5'000};
  }

  std::vector<std::size_t> writers() const override { return {1, 4, 16}; }

  std::string about() override {
    const auto settings = BarePostgres(url_).query(
        "SELECT current_setting('server_version'), current_setting('fsync'), "
        "current_setting('synchronous_commit')");
    const auto value = [&](int column) {
      return std::string(PQgetvalue(settings.get(), 0, column));
    };
    return "PostgreSQL " + value(0) + " at " + url_ + "; fsync = " + value(1) +
           ", synchronous_commit = " + value(2);
  }

  std::string fresh() override { return create("template0"); }
  std::string copy(const std::string& database) override { return create(name_of(database)); }
  void remove(const std::string& database) override {
    administer("DROP DATABASE " + name_of(database) + " WITH (FORCE)");
  }

  void fill(const std::string& database, const LanePage& filling) override {
    fill_postgres(database, filling);
  }
  void tidy_up(const std::string& database) override {
    BarePostgres(database).exec("VACUUM (ANALYZE) outbox_event");
  }

  std::shared_ptr<Store> open(const std::string& database, Opening opening) override {
    const bool keep = opening.finish == Finish::update;
    return postgres::open(database,
                          {.on_done = keep ? postgres::OnDone::keep : postgres::OnDone::remove,
                           .connections = kConnections,
                           .insert_at_commit = opening.insert_at_commit,
                           .notify = opening.notify});
  }

  std::unique_ptr<BareConnection> connect(const std::string& database) override {
    return std::make_unique<BarePostgres>(database);
  }
  std::unique_ptr<BareWriter> writer(const std::string& database) override {
    return postgres_writer(database);
  }
  double drain_naive(const std::string& database, std::size_t events) override {
    return postgres_naive(database, events);
  }
  double drain_limit(const std::string& database, std::size_t events, Finish finish) override {
    return postgres_limit(database, events, finish);
  }
  std::vector<Visited> visited(const std::string& database, std::size_t rows,
                               const std::function<void()>& /*poll*/) override {
    return postgres_visited(database, rows);
  }

 private:
  // By copying files, between two checkpoints: what is measured next has no part of it.
  std::string create(const std::string& original) {
    const std::string name = "bench_" + std::to_string(++databases_);
    administer("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)");
    administer("CREATE DATABASE " + name + " TEMPLATE " + original + " STRATEGY file_copy");
    return url_.substr(0, url_.rfind('/') + 1) + name;
  }

  static std::string name_of(const std::string& database) {
    return database.substr(database.rfind('/') + 1);
  }

  // On a connection of its own, which a process forked off must not share.
  void administer(const std::string& statement) const { BarePostgres(url_).exec(statement); }

  const std::string url_;
  std::atomic<int> databases_{0};
};

}  // namespace

std::unique_ptr<Subject> postgres_subject() {
  const char* url = std::getenv("OUTBOX_TEST_POSTGRES");
  if (url == nullptr) {
    throw std::runtime_error("OUTBOX_TEST_POSTGRES names no server; run scripts/bench postgres");
  }
  return std::make_unique<PostgresSubject>(url);
}

}  // namespace outbox::bench
