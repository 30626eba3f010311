// The suite on the SQLite store, each test on a database file of its own.
#include "database.h"
#include "outbox/sqlite.h"
#include "support/sqlite.h"
#include "support/sqlite_writes.h"
#include "support/temporary_directory.h"

namespace outbox::conformance {
namespace {

class SqliteConnection final : public OwnConnection {
 public:
  explicit SqliteConnection(const std::string& path) : connection_(path) {}

  void execute(const std::string& statements) override { connection_.run(statements); }
  std::string value(const std::string& query) override { return connection_.value(query); }
  std::unique_ptr<Connection> wrapped(Store& store) override {
    return wrap(connection_.get(), store);
  }

 private:
  const test::ForeignConnection connection_;
};

class SqliteDatabase final : public Database {
 public:
  SqliteDatabase(std::string path, sqlite::Options options)
      : path_(std::move(path)), options_(std::move(options)) {}

  std::string url() const override { return path_; }
  std::string table() const override { return options_.table; }
  DatabaseWords words() const override {
    return {.begin_hint = "BEGIN IMMEDIATE",
            .options = "sqlite",
            .begin = "BEGIN IMMEDIATE",
            .long_names = true,
            .session_settings = {"PRAGMA foreign_keys = ON; PRAGMA reverse_unordered_selects = ON; "
                                 "PRAGMA case_sensitive_like = ON"},
            .shown_settings =
                "SELECT f.foreign_keys || r.reverse_unordered_selects FROM "
                "pragma_foreign_keys AS f, pragma_reverse_unordered_selects AS r",
            .wrong_statements = {
                {"UPDATE {mine} SET id = ? WHERE id = ?",
                 {std::int64_t{1}},
                 Advice::fix_the_call,
                 "takes 2 values and was given 1",
                 "connection"},
                {"SELECT * FROM no_such_table", {}, Advice::fix_the_statement, "", "migrate"},
                {"INSERT INTO {mine} VALUES (1)",
                 {},
                 Advice::fix_the_statement,
                 "UNIQUE constraint failed",
                 "id of your own"},
                {"SELEKT 1", {}, Advice::fix_the_statement, "SELEKT 1", "start it over"}}};
  }

  std::shared_ptr<Store> open(const std::string& url, const Opening& how) override {
    sqlite::Options options = wished(options_, how);
    return sqlite::open(url, std::move(options));
  }
  std::unique_ptr<OwnConnection> connect(const std::string& url) override {
    return std::make_unique<SqliteConnection>(url);
  }
  std::vector<std::function<void(Store&)>> wrong_handles() const override {
    return {[](Store& store) { wrap(static_cast<sqlite3*>(nullptr), store); }};
  }

  std::string schema_sql(const std::string& table) const override {
    return sqlite::schema_sql(table);
  }
  SchemaStatus schema_status(const std::string& url) const override {
    return sqlite::schema_status(url, table());
  }
  std::string objects() override {
    return test::ForeignConnection(path_).value(
        "SELECT coalesce(group_concat(sql, ' '), '') FROM (SELECT sql FROM sqlite_schema WHERE "
        "name NOT LIKE 'sqlite_%' ORDER BY name)");
  }
  void drop_objects() override {
    const test::ForeignConnection db(path_);
    for (const std::string& table :
         db.column("SELECT name FROM sqlite_schema WHERE type = 'table' AND "
                   "name NOT LIKE 'sqlite_%'")) {
      db.run("DROP TABLE " + table);
    }
  }
  // What version 1 of the schema made of a database.
  int make_older() override {
    const test::ForeignConnection db(path_);
    db.run("DELETE FROM " + table() + "_migration WHERE version > 1");
    for (const char* index : {"dead_row", "broken", "waits"}) {
      db.run("DROP INDEX " + table() + "_" + index);
    }
    for (const char* when : {"insert", "update"}) {
      db.run("DROP TRIGGER " + table() + "_check_" + when);
    }
    for (const char* later :
         {"archive", "inbox", "version", "creation", "unblocked", "consumption"}) {
      db.run("DROP TABLE " + table() + "_" + later);
    }
    return 1;
  }

 private:
  const std::string path_;
  const sqlite::Options options_;
};

class SqliteBackend final : public Backend {
 public:
  explicit SqliteBackend(std::string table) : table_(std::move(table)) {}

  std::shared_ptr<Store> open(const Wishes& wishes) override {
    sqlite::Options options = wished(options_, wishes);
    options.clock = &clock_;
    return sqlite::open(path_, std::move(options));
  }

  void advance(std::chrono::microseconds by) override { clock_.advance(by); }

  // One transaction writes at a time, so the other one's is over when that of the work begins.
  bool interrupt(Store& /*store*/, const std::string& sql,
                 const std::function<void()>& work) override {
    writes_.before_next(
        [&] { EXPECT_NO_THROW(test::ForeignConnection(path_).run(for_table(sql, table_))); });
    work();
    EXPECT_TRUE(writes_.came());
    return true;
  }

  std::vector<std::string> archived(Store& store) override {
    std::vector<std::string> rows;
    for (const ResultRow& row : store.connect()->query(
             "SELECT event_id || '=' || payload FROM " + table_ + "_archive ORDER BY 1", {})) {
      rows.push_back(row.get<std::string>(0));
    }
    return rows;
  }

  std::optional<SqlWords> sql_words() const override {
    return SqlWords{.table = table_,
                    .micros_of_created_at = "created_at",
                    .json_x = "json_extract(payload, '$.x')",
                    .json_n_deep_1 = "json_extract(payload, '$.n.deep[1]')",
                    .a_day_ago = "(unixepoch() - 86400) * 1000000"};
  }

  Database* database() override {
    if (!database_) database_.emplace(path_, options_);
    return &*database_;
  }

 private:
  test::SqliteWrites writes_;
  const test::TemporaryDirectory directory_;
  const std::string path_ = directory_.file("outbox.db");
  const std::string table_;
  const sqlite::Options options_{.table = table_, .durability = sqlite::Durability::normal};
  std::optional<SqliteDatabase> database_;
  testing::ManualClock clock_;
};

}  // namespace
}  // namespace outbox::conformance

OUTBOX_STORE_CONFORMANCE(Sqlite, factory<SqliteBackend>("DefaultTable", "outbox_event"),
                         factory<SqliteBackend>("OtherTable", "shop_events"));
OUTBOX_DATABASE_CONFORMANCE(Sqlite, factory<SqliteBackend>("DefaultTable", "outbox_event"));
