#include "subject.h"

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "mysql/bare.h"
#include "mysql/parts.h"
#include "outbox/mysql.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kConnections = 16;

// A database of the server for each; their names are URLs.
class MysqlSubject final : public Subject {
 public:
  explicit MysqlSubject(std::string url) : url_(std::move(url)) {}

  std::string name() const override { return "mysql"; }

  std::vector<Trait> traits() const override { return {Trait::server}; }

  Bars bars() const override {
    return {.drain_keep = 0.6,
            .drain_delete = 0.5,
            .drain_naive = 10,
            .row_claims_naive = 5,
            .write = 0.93};
  }

  std::vector<std::size_t> writers() const override { return {1, 4, 16}; }

  std::string about() override {
    const auto settings = BareMysql(url_).query(
        "SELECT version(), @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog");
    const char* const* values = mysql_fetch_row(settings.get());
    return std::string(values[0]) + " at " + url_ +
           "; innodb_flush_log_at_trx_commit = " + values[1] + ", log_bin = " + values[2] +
           ", sync_binlog = " + values[3];
  }

  std::string fresh() override {
    const std::string name = "bench_" + std::to_string(++databases_);
    administer("DROP DATABASE IF EXISTS " + name);
    administer("CREATE DATABASE " + name);
    return url_.substr(0, url_.rfind('/') + 1) + name;
  }
  std::string copy(const std::string& database) override {
    std::string result = fresh();
    copy_mysql(database, result);
    return result;
  }
  void remove(const std::string& database) override {
    administer("DROP DATABASE " + database.substr(database.rfind('/') + 1));
  }

  void fill(const std::string& database, const LanePage& filling) override {
    fill_mysql(database, filling);
  }
  void tidy_up(const std::string& database) override { tidy_up_mysql(database); }

  std::shared_ptr<Store> open(const std::string& database, Opening opening) override {
    const bool keep = opening.finish == Finish::update;
    return mysql::open(database, {.on_done = keep ? mysql::OnDone::keep : mysql::OnDone::remove,
                                  .connections = kConnections});
  }

  std::unique_ptr<BareConnection> connect(const std::string& database) override {
    return std::make_unique<BareMysql>(database, mysql::Use::transactions);
  }
  std::unique_ptr<BareWriter> writer(const std::string& database) override {
    return mysql_writer(database);
  }
  double drain_naive(const std::string& database, std::size_t events) override {
    return mysql_naive(database, events);
  }
  double drain_limit(const std::string& database, std::size_t events, Finish finish) override {
    return mysql_limit(database, events, finish);
  }
  std::vector<Visited> visited(const std::string& database, std::size_t /*rows*/,
                               const std::function<void()>& poll) override {
    return mysql_visited(database, poll);
  }

 private:
  // On a connection of its own, which a process forked off must not share.
  void administer(const std::string& statement) const { BareMysql(url_).exec(statement); }

  const std::string url_;
  std::atomic<int> databases_{0};
};

}  // namespace

std::unique_ptr<Subject> mysql_subject() {
  const char* url = std::getenv("OUTBOX_TEST_MYSQL");
  if (url == nullptr) {
    throw std::runtime_error("OUTBOX_TEST_MYSQL names no server; run scripts/bench mysql");
  }
  return std::make_unique<MysqlSubject>(url);
}

}  // namespace outbox::bench
