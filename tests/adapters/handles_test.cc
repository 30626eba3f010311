// The client libraries' own handles.
#include <libpq-fe.h>
#include <mysql.h>
#include <sqlite3.h>

#include <stdexcept>

#include "adapters/adapter_test.h"

namespace outbox::adapters {
namespace {

// PGconn and MYSQL.
template <class Client>
class HandleOwner final : public Owner {
 public:
  explicit HandleOwner(const std::string& first = "SELECT 1") { run(first); }
  void begin() override { run("BEGIN"); }
  void commit() override { run("COMMIT"); }
  void rollback() override { run("ROLLBACK"); }
  void run(const std::string& sql) override { sql_.execute(sql); }
  std::unique_ptr<Connection> wrap(Store& store) override {
    return outbox::wrap(sql_.handle(), store);
  }

 private:
  Client sql_;
};

class SqliteOwner final : public Owner {
 public:
  explicit SqliteOwner(const Place& place) { sqlite3_open(place.name().c_str(), &db_); }
  ~SqliteOwner() override { sqlite3_close(db_); }
  void begin() override { run("BEGIN IMMEDIATE"); }
  void commit() override { run("COMMIT"); }
  void rollback() override { run("ROLLBACK"); }
  void run(const std::string& sql) override {
    if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sql + ": " + sqlite3_errmsg(db_));
    }
  }
  std::unique_ptr<Connection> wrap(Store& store) override { return outbox::wrap(db_, store); }

 private:
  sqlite3* db_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(PostgresLibpq, AdapterSuite,
                         ::testing::Values(Library{
                             Dialect::postgres, [](const Place&) {
                               return std::make_unique<HandleOwner<test::Sql>>();
                             }}));
INSTANTIATE_TEST_SUITE_P(MysqlLibmariadb, AdapterSuite,
                         ::testing::Values(Library{
                             Dialect::mysql, [](const Place& place) {
                               return std::make_unique<HandleOwner<test::Mysql>>("USE " +
                                                                                 place.name());
                             }}));
INSTANTIATE_TEST_SUITE_P(Sqlite, AdapterSuite,
                         ::testing::Values(Library{Dialect::sqlite, [](const Place& place) {
                                                     return std::make_unique<SqliteOwner>(place);
                                                   }}));

class MysqlHandleTest : public MysqlAdapterTest {};

TEST_F(MysqlHandleTest, AHandleOfOneDatabaseAndAStoreOnAnotherAreRefused) {
  test::Mysql mine(test::mysql_url());
  const auto place = new_place(Dialect::sqlite);
  EXPECT_THROW(wrap(mine.handle(), *place->open()), MisuseError);
  sqlite3* db = nullptr;
  sqlite3_open(":memory:", &db);
  EXPECT_THROW(wrap(db, *store_), MisuseError);
  sqlite3_close(db);
}

}  // namespace
}  // namespace outbox::adapters
