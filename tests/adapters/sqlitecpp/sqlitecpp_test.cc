#include "outbox/adapter/sqlitecpp.h"

#include "adapters/adapter_test.h"

namespace outbox::adapters {
namespace {

class SqliteCppOwner final : public Owner {
 public:
  explicit SqliteCppOwner(const Place& place)
      : db_(place.name(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE) {}
  void begin() override { tx_ = std::make_unique<SQLite::Transaction>(db_); }
  void commit() override {
    tx_->commit();
    tx_.reset();
  }
  void rollback() override { tx_.reset(); }
  void run(const std::string& sql) override { db_.exec(sql); }
  std::unique_ptr<Connection> wrap(Store& store) override { return outbox::wrap(db_, store); }

 private:
  SQLite::Database db_;
  std::unique_ptr<SQLite::Transaction> tx_;
};

INSTANTIATE_TEST_SUITE_P(SqliteCpp, AdapterSuite,
                         ::testing::Values(Library{Dialect::sqlite, [](const Place& place) {
                                                     return std::make_unique<SqliteCppOwner>(place);
                                                   }}));

}  // namespace
}  // namespace outbox::adapters
