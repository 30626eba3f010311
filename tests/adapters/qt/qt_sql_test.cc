#include "outbox/adapter/qt_sql.h"

#include <QtCore/QCoreApplication>
#include <QtSql/QSqlError>
#include <QtSql/QSqlQuery>
#include <stdexcept>

#include "adapters/adapter_test.h"

namespace outbox::adapters {
namespace {

// Qt finds its drivers by it.
void make_application() {
  static int argc = 1;
  static char name[] = "adapters_qt_test";
  static char* argv[] = {name, nullptr};
  static const QCoreApplication application(argc, argv);
}

class QtOwner final : public Owner {
 public:
  QtOwner(const char* driver, const Place& place, const std::string& server_url) {
    make_application();
    db_ = QSqlDatabase::addDatabase(driver, kName);
    db_.setDatabaseName(QString::fromStdString(place.name()));
    if (!server_url.empty()) {
      db_.setHostName("127.0.0.1");
      db_.setPort(test::port_of(server_url));
      db_.setUserName(QString(driver) == "QPSQL" ? "postgres" : "root");
    }
    check(db_.open(), "open");
    // Of Qt's own choice it is utf8mb3, which the consumer patterns refuse for some texts.
    if (QString(driver) == "QMYSQL") run("SET NAMES utf8mb4");
  }
  ~QtOwner() override {
    db_.close();
    db_ = {};
    QSqlDatabase::removeDatabase(kName);
  }
  void begin() override { check(db_.transaction(), "begin"); }
  void commit() override { check(db_.commit(), "commit"); }
  void rollback() override { check(db_.rollback(), "roll back"); }
  void run(const std::string& sql) override {
    QSqlQuery query(db_);
    if (!query.exec(QString::fromStdString(sql))) {
      throw std::runtime_error(sql + ": " + query.lastError().text().toStdString());
    }
  }
  std::unique_ptr<Connection> wrap(Store& store) override { return outbox::wrap(db_, store); }

 private:
  static constexpr const char* kName = "mine";

  void check(bool is_done, const char* what) const {
    if (is_done) return;
    throw std::runtime_error(std::string(what) + ": " + db_.lastError().text().toStdString());
  }

  QSqlDatabase db_;
};

// This file is compiled with Qt 5 and with Qt 6, and its tests are called by that: PostgresQt6/...
#define OUTBOX_INSTANTIATE(prefix, version, ...) \
  INSTANTIATE_TEST_SUITE_P(prefix##Qt##version, __VA_ARGS__)
#define OUTBOX_WITH_QT_OF(version, prefix, ...) OUTBOX_INSTANTIATE(prefix, version, __VA_ARGS__)
#define OUTBOX_WITH_QT(prefix, ...) OUTBOX_WITH_QT_OF(QT_VERSION_MAJOR, prefix, __VA_ARGS__)

OUTBOX_WITH_QT(Postgres, AdapterSuite,
               ::testing::Values(Library{Dialect::postgres, [](const Place& place) {
                                           return std::make_unique<QtOwner>("QPSQL", place,
                                                                            test::postgres_url());
                                         }}));
OUTBOX_WITH_QT(Mysql, AdapterSuite,
               ::testing::Values(Library{Dialect::mysql, [](const Place& place) {
                                           return std::make_unique<QtOwner>("QMYSQL", place,
                                                                            test::mysql_url());
                                         }}));
OUTBOX_WITH_QT(Sqlite, AdapterSuite,
               ::testing::Values(Library{Dialect::sqlite, [](const Place& place) {
                                           return std::make_unique<QtOwner>("QSQLITE", place, "");
                                         }}));

class QtSqlTest : public ::testing::TestWithParam<const char*> {};
OUTBOX_WITH_QT(Unopened, QtSqlTest, ::testing::Values("QPSQL", "QMYSQL", "QSQLITE"));

TEST_P(QtSqlTest, WhatIsNotOpenIsRefused) {
  make_application();
  const auto place = new_place(Dialect::sqlite);
  EXPECT_THROW(wrap(QSqlDatabase(), *place->open()), MisuseError);
  {
    const QSqlDatabase closed = QSqlDatabase::addDatabase(GetParam(), "closed");
    EXPECT_TRUE(closed.isValid()) << "the driver is there";
    EXPECT_THROW(wrap(closed, *place->open()), MisuseError);
  }
  QSqlDatabase::removeDatabase("closed");
}

}  // namespace
}  // namespace outbox::adapters
