// The suite on the MySQL store, each test in a database of its own: with statements that
// are kept prepared, and without.
#include <mysql.h>

#include <future>
#include <optional>
#include <regex>

#include "network.h"
#include "outbox/mysql.h"
#include "support/mysql.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

bool is_mariadb(test::Mysql& sql) {
  return sql.value("SELECT version()").find("MariaDB") != std::string::npos;
}

class MysqlRoles final : public Roles {
 public:
  explicit MysqlRoles(std::string url)
      : url_(std::move(url)), sql_(url_), database_(sql_.value("SELECT database()")) {
    std::string grants = documented_grants("CREATE ROLE outbox_writer,");
    grants = std::regex_replace(grants, std::regex("\\bshop\\b"), database_);
    for (const std::string role : kRoles) {
      grants = std::regex_replace(grants, std::regex("outbox_" + role), name(role));
    }
    sql_.execute(grants);
    for (const char* role : kRoles) {
      sql_.execute("CREATE USER " + user(role));
      sql_.execute("GRANT " + name(role) + " TO " + user(role));
      sql_.execute("SET DEFAULT ROLE " + name(role) + (is_mariadb(sql_) ? " FOR " : " TO ") +
                   user(role));
    }
  }
  ~MysqlRoles() override {
    for (const char* role : kRoles) {
      sql_.execute("DROP USER IF EXISTS " + user(role));
      sql_.execute("DROP ROLE IF EXISTS " + name(role));
    }
  }

  // Both are short, because MySQL's names of users have 32 characters at most.
  std::string name(const std::string& role) const override { return database_ + "_" + role[0]; }
  std::string user(const std::string& role) const { return name(role) + "_u"; }
  void revoke_everything(const std::string& role) override {
    sql_.execute("REVOKE " + name(role) + " FROM " + user(role));
  }

  std::string url_as(const std::string& role) const override {
    return std::regex_replace(url_, std::regex("//root@"), "//" + user(role) + "@");
  }

 private:
  const std::string url_;
  test::Mysql sql_;
  const std::string database_;
};

class MysqlRemote final : public Remote {
 public:
  MysqlRemote(std::string url, mysql::Options options)
      : url_(std::move(url)), options_(std::move(options)), onlooker_(url_) {}

  std::string url() const override { return url_; }
  std::string url_at(int port) const override {
    return test::with_port(url_, port) + "?ssl_mode=disabled";
  }
  std::string table() const override { return options_.table; }
  DatabaseWords words() const override {
    return {.begin_hint = "run BEGIN",
            .options = "mysql",
            .longest_schema = 64,
            .tables_of_shards = {"_shard", "_flush"},
            .session_settings = {"SET NAMES latin1", "SET NAMES sjis",
                                 "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET sql_mode = 'ANSI'",
                                 "SET sql_mode = ''", "SET time_zone = '+05:45'",
                                 "SET auto_increment_increment = 7",
                                 "SET collation_connection = utf8mb4_general_ci"},
            .shown_settings =
                "SELECT concat_ws('|', @@character_set_client, @@character_set_results, @@sql_mode,"
                " @@collation_connection, @@time_zone, @@autocommit, @@auto_increment_increment)",
            .wrong_statements = {
                {"UPDATE {mine} SET id = ? WHERE id = ?",
                 {std::int64_t{1}},
                 Advice::fix_the_call,
                 "",
                 "connection"},
                {"SELECT * FROM no_such_table", {}, Advice::fix_the_statement, "[1146]", "migrate"},
                {"INSERT INTO {mine} VALUES (1)",
                 {},
                 Advice::fix_the_statement,
                 "[1062]",
                 "id of your own"},
                {"SELEKT 1", {}, Advice::fix_the_statement, "[1064]", "start it over"}}};
  }

  std::shared_ptr<Store> open(const std::string& url, const Opening& how) override {
    mysql::Options options = wished(options_, how);
    options.statement_timeout = how.statement_timeout.value_or(options.statement_timeout);
    if (how.tagged)
      options.on_open = [](st_mysql* handle) { mysql_query(handle, "SET @mine = 1"); };
    return mysql::open(url, std::move(options));
  }
  bool is_tagged(Connection& connection) override {
    return connection.query("SELECT @mine", {}).at(0).at(0) == Value{std::int64_t{1}};
  }

  std::unique_ptr<OwnConnection> connect(const std::string& url) override {
    return std::make_unique<OwnClient<test::Mysql>>(url);
  }
  std::vector<std::function<void(Store&)>> wrong_handles() const override {
    return {[](Store& store) { wrap(static_cast<MYSQL*>(nullptr), store); },
            [](Store& store) {
              const std::unique_ptr<MYSQL, decltype(&mysql_close)> closed(mysql_init(nullptr),
                                                                          mysql_close);
              wrap(closed.get(), store);
            }};
  }

  std::string schema_sql(const std::string& table) const override {
    test::Mysql sql(url_);
    return mysql::schema_sql(is_mariadb(sql) ? mysql::Server::mariadb : mysql::Server::mysql,
                             table);
  }
  SchemaStatus schema_status(const std::string& url) const override {
    return mysql::schema_status(url, table());
  }
  std::string objects() override {
    std::string lines;
    for (const test::Row& row : onlooker_.query(
             "SELECT 'column', table_name, column_name, column_type, is_nullable, "
             "  column_default, collation_name, extra, generation_expression "
             "FROM information_schema.columns WHERE table_schema = database() "
             "UNION ALL SELECT 'index', table_name, index_name, column_name, seq_in_index, "
             "  non_unique, '', '', '' FROM information_schema.statistics "
             "  WHERE table_schema = database() "
             "UNION ALL SELECT 'check', constraint_name, check_clause, '', '', '', '', '', '' "
             "FROM information_schema.check_constraints WHERE constraint_schema = database() "
             "ORDER BY 1, 2, 3, 4, 5")) {
      for (const auto& part : row) lines += part.value_or("NULL") + " ";
      lines += "\n";
    }
    return lines;
  }
  void drop_objects() override {
    for (const char* suffix :
         {"", "_instance", "_shard", "_archive", "_flush", "_inbox", "_version", "_creation",
          "_unblocked", "_consumption", "_migration"}) {
      onlooker_.execute("DROP TABLE IF EXISTS " + table() + suffix);
    }
  }
  int make_older() override {
    onlooker_.execute("DELETE FROM " + table() + "_migration WHERE version > 2");
    for (const char* later : {"inbox", "version", "creation", "unblocked", "consumption"}) {
      onlooker_.execute("DROP TABLE " + table() + "_" + later);
    }
    onlooker_.execute("ALTER TABLE " + table() + "_shard RENAME COLUMN draining TO leaving, " +
                      "RENAME COLUMN candidates TO suspects; ALTER TABLE " + table() +
                      "_instance RENAME COLUMN exclusive TO whole");
    return 2;
  }

  std::int64_t rows() override {
    test::Mysql sql(url_);
    sql.execute("SET lock_wait_timeout = 20; LOCK TABLES " + table() + " WRITE; UNLOCK TABLES");
    return std::stoll(sql.value("SELECT count(*) FROM " + table()));
  }

  std::string session_of(Connection& connection) override {
    return std::to_string(
        connection.query("SELECT connection_id()", {}).at(0).get<std::int64_t>(0));
  }
  void end_session(const std::string& session) override {
    onlooker_.execute("KILL CONNECTION " + session);
    ASSERT_TRUE(test::eventually([&] {
      return onlooker_.value("SELECT count(*) FROM information_schema.processlist WHERE id = " +
                             session) == "0";
    }));
  }
  bool are_waiting(int number) override { return test::waiting_transactions(onlooker_) == number; }

  bool engine_commits() const override { return true; }
  std::chrono::seconds short_lease() const override { return 6s; }  // MySQL is up to a second late

  std::vector<SecretUrl> urls_with(const std::string& secret) const override {
    const std::string server = "127.0.0.1:" + std::to_string(port());
    const std::string login = "mysql://root:" + secret + "@";
    return {
        {"mysql://nobody:" + secret + "@" + server + "/outbox", Advice::give_up},
        {login + "no-such-host.invalid/outbox", Advice::retry},
        {login + "127.0.0.1:1/outbox", Advice::retry},
        {login + server + "/outbox?no_such_parameter=1", Advice::fix_the_call},
        {login + server + "/outbox?ssl_mode=nonsense", Advice::fix_the_call},
        {login + "[::1/outbox", Advice::fix_the_call},
        {"mysql://root:%zz" + secret + "@" + server + "/outbox", Advice::fix_the_call},
        {"postgresql://root:" + secret + "@" + server + "/a", Advice::fix_the_call},
        {"mysql://root@" + server + "/outbox?password=" + secret, Advice::fix_the_call},
        {"host=127.0.0.1 user=root password=" + secret, Advice::fix_the_call},
        {"redis://:" + secret + "@" + server + "/0", Advice::fix_the_call},
        {"mysql://a:" + secret + "@h1,b:" + secret + "@h2/outbox", Advice::fix_the_call},
        {"mysql://root:%74" + secret.substr(1) + "@127.0.0.1:1,127.0.0.1:2/outbox", Advice::retry},
    };
  }

  std::unique_ptr<Roles> make_roles() override { return std::make_unique<MysqlRoles>(url_); }
  bool is_denial(const std::string& error) const override {
    return error.find("denied") != std::string::npos ||
           error.find("SUPER privilege") != std::string::npos;
  }
  std::vector<Permission> own_permissions() const override {
    return {
        {"INSERT INTO E (event_id, event_type, payload, seq) VALUES ('x', 'T', '{}', 1)", ""},
        {"REPLACE INTO E (event_id, event_type, payload) VALUES ('x', 'T', '{}')", ""},
        {"SELECT event_id FROM E", "DJ"},
        {"UPDATE E SET seq = 1", ""},
        {"LOCK TABLES E WRITE", ""},
        {"CREATE TRIGGER x BEFORE INSERT ON E FOR EACH ROW SET NEW.hold = 0", ""},
        {"INSERT INTO E_instance (owner, lease, capacity, exclusive, claims, name, host, pid, "
         "process) "
         "VALUES ('x', 1, 1, 0, 0, 'x', 'x', 1, 'x')",
         "D"},
        {"UPDATE E_shard SET epoch = NULL", "D"},
        {"SELECT * FROM E_flush", "D"},
        {"UPDATE E_flush SET flushes = flushes + 1 WHERE shard = 0", "D"},
        {"UPDATE E_flush SET shard = 0", ""},
        {"INSERT INTO E_flush (shard) VALUES (99)", ""},
        {"DELETE FROM E_flush", ""},
        {"UPDATE E_version SET aggregate_id = 'x'", "C"},
        {"CREATE TABLE mine (x INT)", ""},
        {"CREATE USER nobody", ""},
    };
  }

 private:
  const std::string url_;
  const mysql::Options options_;
  test::Mysql onlooker_;
};

class MysqlBackend : public Backend {
 public:
  explicit MysqlBackend(std::string table) : table_(std::move(table)) {
    if (missing().empty()) database_.emplace();
  }

  std::string missing() const override {
    if (test::services_required()) return {};
    return test::missing_service("OUTBOX_TEST_MYSQL").value_or("");
  }

  std::shared_ptr<Store> open(const Wishes& wishes) override {
    return mysql::open(database_->url(), options(wishes));
  }

  // Nobody can move the server's clock, so everything in the tables moves back.
  void advance(std::chrono::microseconds by) override {
    const auto [events, instances] = test::Mysql::made_earlier(table_, by);
    test::Mysql sql(database_->url());
    sql.execute(events);
    sql.execute(instances);
  }

  bool moves_rows() const override { return true; }
  std::chrono::microseconds clock_error() const override { return 2s; }

  // The other one's change is open when the work begins, which waits for it when it changes the
  // same row.
  bool interrupt(Store& /*store*/, const std::string& sql,
                 const std::function<void()>& work) override {
    test::Mysql other(database_->url());
    test::Mysql onlooker(database_->url());
    other.execute("BEGIN; " + for_table(sql, table_));
    auto working = std::async(std::launch::async, work);
    EXPECT_TRUE(test::eventually([&] { return test::waiting_transactions(onlooker) == 1; }));
    other.execute("COMMIT");
    working.get();
    return true;
  }

  // On a connection of its own: a server's settings may limit those of a program.
  std::vector<std::string> archived(Store& /*store*/) override {
    std::vector<std::string> rows;
    for (const test::Row& row : test::Mysql(database_->url())
                                    .query("SELECT concat(event_id, '=', coalesce(payload, "
                                           "convert(payload_bytes USING utf8mb4)))"
                                           " FROM " +
                                           table_ + "_archive ORDER BY event_id")) {
      rows.push_back(row.at(0).value());
    }
    return rows;
  }

  std::optional<SqlWords> sql_words() const override {
    return SqlWords{.table = table_,
                    .set_time_zone = "SET time_zone = '-03:30'",
                    .micros_of_created_at = "timestampdiff(MICROSECOND, '1970-01-01', created_at)",
                    .json_x = "json_value(payload, '$.x')",
                    .json_n_deep_1 = "json_extract(payload, '$.n.deep[1]')",
                    .a_day_ago = "utc_timestamp(6) - INTERVAL 1 DAY"};
  }

  Remote* remote() override {
    if (!remote_) remote_.emplace(database_->url(), options({}));
    return &*remote_;
  }
  Database* database() override { return remote(); }

 protected:
  virtual mysql::Options options(const Wishes& wishes) const {
    return wished(mysql::Options{.table = table_}, wishes);
  }

 private:
  const std::string table_;
  std::optional<test::Database> database_;
  std::optional<MysqlRemote> remote_;
};

class UnpreparedBackend final : public MysqlBackend {
 public:
  using MysqlBackend::MysqlBackend;

 protected:
  mysql::Options options(const Wishes& wishes) const override {
    mysql::Options unprepared = MysqlBackend::options(wishes);
    unprepared.prepare = false;
    return unprepared;
  }
};

}  // namespace

OUTBOX_STORE_CONFORMANCE_SUBJECT(MysqlUnprepared, ServersClockTest,
                                 factory<UnpreparedBackend>("Unprepared", "shop_events"));

}  // namespace outbox::conformance

OUTBOX_STORE_CONFORMANCE(Mysql, factory<MysqlBackend>("Prepared", "outbox_event"),
                         factory<UnpreparedBackend>("Unprepared", "shop_events"));
OUTBOX_DATABASE_CONFORMANCE(Mysql, factory<MysqlBackend>("Prepared", "outbox_event"));
OUTBOX_SERVER_CONFORMANCE(Mysql, factory<MysqlBackend>("Prepared", "outbox_event"));
