// The suite on the PostgreSQL store, each test in a schema of its own: once on the
// server itself, and once behind PgBouncer in transaction mode.
#include <libpq-fe.h>

#include <future>
#include <optional>
#include <regex>

#include "network.h"
#include "outbox/outbox.h"
#include "outbox/postgres.h"
#include "support/postgres.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

class PostgresRoles final : public Roles {
 public:
  explicit PostgresRoles(std::string schema) : schema_(std::move(schema)) {
    grant("CREATE ROLE outbox_writer NOLOGIN");
    for (const char* role : kRoles) sql_.execute("ALTER ROLE " + name(role) + " LOGIN");
  }
  ~PostgresRoles() override {
    for (const char* role : kRoles) {
      sql_.execute(
          "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '" +
          name(role) + "'");
      sql_.execute("DROP OWNED BY " + name(role) + "; DROP ROLE " + name(role));
    }
  }

  // What the block that begins so says.
  void grant(const std::string& script) {
    std::string grants = documented_grants(script);
    grants = std::regex_replace(grants, std::regex("outbox_(writer|dispatcher|janitor|consumer)"),
                                schema_ + "_$1");
    grants = std::regex_replace(grants, std::regex("\\bshop\\b"), schema_);
    sql_.execute(grants);
  }

  std::string name(const std::string& role) const override { return schema_ + "_" + role; }
  void revoke_everything(const std::string& role) override {
    sql_.execute("REVOKE ALL ON SCHEMA " + schema_ + " FROM " + name(role));
  }
  std::string url_as(const std::string& role) const override {
    return std::regex_replace(test::postgres_url(), std::regex("//postgres@"),
                              "//" + name(role) + "@");
  }

 private:
  const std::string schema_;
  test::Sql sql_;
};

class PostgresRemote final : public Remote {
 public:
  PostgresRemote(std::string schema, postgres::Options options)
      : schema_(std::move(schema)), options_(std::move(options)) {}

  std::string url() const override { return test::postgres_url(); }
  std::string table() const override { return options_.table; }
  DatabaseWords words() const override {
    DatabaseWords words{.begin_hint = "run BEGIN",
                        .options = "postgres",
                        .tables_of_shards = {"_shard"},
                        .failure_ends_transaction = true,
                        .session_settings = {},
                        .shown_settings =
                            "SELECT concat_ws('|', current_setting('client_encoding'), "
                            "current_setting('TimeZone'), current_setting('search_path'))"};
    for (const char* encoding : {"UTF8", "LATIN1", "SQL_ASCII", "SJIS"}) {
      words.session_settings.push_back(
          "SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY'; "
          "SET IntervalStyle = 'sql_standard'; SET bytea_output = 'escape'; "
          "SET standard_conforming_strings = off; SET escape_string_warning = off; "
          "SET array_nulls = off; SET extra_float_digits = -10; SET search_path = ''; "
          "SET client_encoding = '" +
          std::string(encoding) + "'");
    }
    words.wrong_statements = {
        {"UPDATE {mine} SET id = $1 WHERE id = $2",
         {std::int64_t{1}},
         Advice::fix_the_call,
         "08P01",
         "connection was lost"},
        {"SELECT * FROM no_such_table", {}, Advice::fix_the_statement, "42P01", "migrate"},
        {"INSERT INTO {mine} VALUES (1)", {}, Advice::fix_the_statement, "23505", "id of your own"},
        {"DO $$ BEGIN SET LOCAL ROLE pg_monitor; DELETE FROM {mine}; END $$",
         {},
         Advice::fix_the_statement,
         "42501",
         "docs/databases.md"},
        {"SELECT 1 / 0", {}, Advice::fix_the_statement, "22012", "start it over"},
        {"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$",
         {},
         Advice::retry,
         "40001",
         "it would fail again"}};
    return words;
  }

  std::shared_ptr<Store> open(const std::string& url, const Opening& how) override {
    postgres::Options options = wished(options_, how);
    options.statement_timeout = how.statement_timeout.value_or(options.statement_timeout);
    options.notify = how.told_of_commits;
    if (how.tagged) {
      options.on_open = [](pg_conn* handle) {
        PQclear(PQexec(handle, "SET application_name = 'mine'"));
      };
    }
    return postgres::open(url, std::move(options));
  }
  bool is_tagged(Connection& connection) override {
    return connection.query("SHOW application_name", {}).at(0).at(0) == Value{"mine"};
  }

  std::unique_ptr<OwnConnection> connect(const std::string& url) override {
    return std::make_unique<OwnClient<test::Sql>>(url);
  }
  std::vector<std::function<void(Store&)>> wrong_handles() const override {
    return {[](Store& store) { wrap(static_cast<PGconn*>(nullptr), store); },
            [](Store& store) {
              const std::unique_ptr<PGconn, decltype(&PQfinish)> closed(
                  PQconnectdb("host=127.0.0.1 port=1 connect_timeout=1"), PQfinish);
              wrap(closed.get(), store);
            }};
  }

  std::string schema_sql(const std::string& table) const override {
    return postgres::schema_sql(table);
  }
  SchemaStatus schema_status(const std::string& url) const override {
    return postgres::schema_status(url, table());
  }
  std::string objects() override {
    const std::string here = "'" + schema_ + "'::regnamespace";
    const std::string plain = "replace(%, '" + schema_ + ".', '')";
    const auto without_schema = [&](const std::string& text) {
      return std::regex_replace(plain, std::regex("%"), text);
    };
    return test::Sql().value(
        "SELECT coalesce(string_agg(line, E'\\n' ORDER BY line), '') FROM ("
        "SELECT concat_ws(' ', 'column', relname, attname, format_type(atttypid, atttypmod), "
        "  attnotnull, attidentity, attgenerated, " +
        without_schema("coalesce(pg_get_expr(adbin, adrelid), '')") +
        ", array_to_string(reloptions, ',')) "
        "FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid "
        "LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE relnamespace = " +
        here +
        " AND attnum > 0 AND NOT attisdropped "
        "UNION ALL SELECT concat_ws(' ', 'index', indexname, " +
        without_schema("indexdef") + ") FROM pg_indexes WHERE schemaname = '" + schema_ +
        "' UNION ALL SELECT concat_ws(' ', 'constraint', conname, pg_get_constraintdef(oid)) "
        "FROM pg_constraint WHERE connamespace = " +
        here +
        " UNION ALL SELECT concat_ws(' ', 'sequence', sequencename, cache_size, start_value, "
        "  increment_by) FROM pg_sequences WHERE schemaname = '" +
        schema_ + "') AS objects (line)");
  }
  void drop_objects() override {
    test::Sql().execute("DROP SCHEMA " + schema_ + " CASCADE; CREATE SCHEMA " + schema_);
  }
  int make_older() override {
    test::Sql sql;
    sql.execute("DELETE FROM " + table() + "_migration WHERE version > 1");
    for (const char* later : {"inbox", "version", "creation", "unblocked", "consumption"}) {
      sql.execute("DROP TABLE " + table() + "_" + later);
    }
    sql.execute("ALTER TABLE " + table() + " DROP CONSTRAINT outbox_event_state");
    sql.execute("ALTER TABLE " + table() + "_shard RENAME draining TO leaving; ALTER TABLE " +
                table() + "_shard RENAME candidates TO suspects; ALTER TABLE " + table() +
                "_instance RENAME exclusive TO whole");
    return 1;
  }

  std::int64_t rows() override {
    test::Sql sql;
    sql.execute("BEGIN; SET LOCAL lock_timeout = '20s'; LOCK TABLE " + table() + "; COMMIT");
    return std::stoll(sql.value("SELECT count(*) FROM " + table()));
  }

  std::string session_of(Connection& connection) override {
    return std::to_string(
        connection.query("SELECT pg_backend_pid()", {}).at(0).get<std::int64_t>(0));
  }
  void end_session(const std::string& session) override {
    test::Sql().execute("SELECT pg_terminate_backend(" + session + ", 10000)");
  }
  bool end_all_sessions() override {
    test::Sql().execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%" +
        schema_ + "%' AND pid <> pg_backend_pid()");
    return true;
  }
  bool are_waiting(int number) override {
    return test::Sql().value(
               "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND "
               "pid IN (SELECT pid FROM pg_locks JOIN pg_class ON pg_class.oid = relation "
               "WHERE relnamespace = '" +
               schema_ + "'::regnamespace)") == std::to_string(number);
  }

  std::string reply_to_commit() const override { return "COMMIT"; }
  bool engine_commits() const override { return false; }
  std::string given_up() const override { return "no answer within 2000 ms"; }
  std::chrono::seconds short_lease() const override { return 3s; }

  std::vector<SecretUrl> urls_with(const std::string& secret) const override {
    const std::string port = std::to_string(this->port());
    const std::string server = "127.0.0.1:" + port;
    const std::string login = "postgresql://postgres:" + secret + "@";
    return {
        {"postgresql://nobody:" + secret + "@" + server + "/outbox", Advice::give_up},
        {"user=nobody password=" + secret + " host=127.0.0.1 dbname=outbox port=" + port,
         Advice::give_up},
        {login + "no-such-host.invalid/outbox", Advice::retry},
        {login + "127.0.0.1:1/outbox", Advice::retry},
        {login + server + "/no_such_database", Advice::give_up},
        {login + server + "/outbox?sslmode=nonsense", Advice::give_up},
        {login + server + "/outbox?no_such_parameter=1", Advice::fix_the_call},
        {login + server + "/outbox?password", Advice::fix_the_call},
        {login + "[::1/outbox", Advice::fix_the_call},
        {"postgresql://postgres:%zz" + secret + "@" + server, Advice::fix_the_call},
        {"password=" + secret + " no_such_setting=1", Advice::fix_the_call},
        {"password='" + secret, Advice::fix_the_call},
        {"host=127.0.0.1 " + secret, Advice::fix_the_call},
        {"mysql://postgres:" + secret + "@" + server, Advice::fix_the_call},
        {"host=127.0.0.1 user=postgres dbname=postgresql://u:" + secret + "@h/d port=" + port,
         Advice::fix_the_call},
        {"host=127.0.0.1 user=postgres dbname='host=h password=" + secret + "' port=" + port,
         Advice::fix_the_call},
        {"redis://:" + secret + "@" + server + "/0", Advice::fix_the_call},
        {"sqlite:" + secret + ".db", Advice::fix_the_call},
        {"postgresql://a:" + secret + "@h1,b:" + secret + "@h2/outbox", Advice::fix_the_call},
        {"postgresql://postgres@127.0.0.1:1/outbox?password=" + secret, Advice::retry},
        {"postgresql://postgres@127.0.0.1:1/outbox?sslpassword=" + secret, Advice::retry},
    };
  }

  std::unique_ptr<Roles> make_roles() override { return std::make_unique<PostgresRoles>(schema_); }
  bool is_denial(const std::string& error) const override {
    return error.find("42501") != std::string::npos;
  }
  std::vector<Permission> own_permissions() const override {
    return {
        {"SELECT event_id, seq, shard FROM E", "WDJ"},
        {"LOCK TABLE E IN ACCESS EXCLUSIVE MODE", "J"},
        {"CREATE TRIGGER x BEFORE INSERT ON E EXECUTE FUNCTION "
         "suppress_redundant_updates_trigger()",
         ""},
        {"COPY E FROM STDIN", ""},
        {"SELECT last_value FROM E_sequence", "D"},
        {"SELECT nextval('E_sequence')", ""},
        {"SELECT setval('E_sequence', 1)", ""},
        {"SELECT nextval('E_epoch')", "D"},
        {"SELECT setval('E_epoch', 1)", ""},
        {"INSERT INTO E_instance (owner, lease, capacity, exclusive, claims, name, host, pid, "
         "process) "
         "VALUES ('x', '1s', 1, false, false, 'x', 'x', 1, 'x')",
         "D"},
        {"UPDATE E_shard SET owner = NULL", "D"},
        {"UPDATE E_version SET aggregate_id = 'x'", ""},
        {"CREATE TABLE " + schema_ + ".mine (x int)", ""},
        {"DROP SCHEMA " + schema_ + " CASCADE", ""},
        {"CREATE ROLE " + schema_ + "_more", ""},
    };
  }

 private:
  const std::string schema_;
  postgres::Options options_;
};

class PostgresBackend : public Backend {
 public:
  explicit PostgresBackend(const std::string& table) {
    if (!missing().empty()) return;
    schema_.emplace();
    table_ = schema_->name() + "." + table;
  }

  std::string missing() const override {
    if (test::services_required()) return {};
    return test::missing_service("OUTBOX_TEST_POSTGRES").value_or("");
  }

  std::shared_ptr<Store> open(const Wishes& wishes) override {
    return postgres::open(test::postgres_url(), options(wishes));
  }

  // Nobody can move the server's clock, so everything in the tables moves back.
  void advance(std::chrono::microseconds by) override {
    const auto [events, instances] = test::Sql::made_earlier(table_, by, true, by_position());
    test::Sql sql(test::postgres_url());
    sql.execute(events);
    sql.execute(instances);
  }

  std::string user_table(const std::string& name) const override {
    return schema_->name() + "." + name;
  }

  bool moves_rows() const override { return true; }
  std::chrono::microseconds clock_error() const override { return 2s; }

  // The other one's change is open when the work begins, which waits for it when it changes the
  // same row.
  bool interrupt(Store& /*store*/, const std::string& sql,
                 const std::function<void()>& work) override {
    test::Sql other(test::postgres_url());
    test::Sql onlooker(test::postgres_url());
    other.execute("BEGIN; " + for_table(sql, table_));
    auto working = std::async(std::launch::async, work);
    EXPECT_TRUE(test::eventually([&] { return test::is_waited_for(onlooker, other); }));
    other.execute("COMMIT");
    working.get();
    return true;
  }

  std::vector<std::string> archived(Store& store) override {
    std::vector<std::string> rows;
    for (const ResultRow& row : store.connect()->query(
             "SELECT event_id || '=' || coalesce(payload, convert_from(payload_bytes, 'UTF8')) "
             "FROM " +
                 table_ + "_archive ORDER BY event_id COLLATE \"C\"",
             {})) {
      rows.push_back(row.get<std::string>(0));
    }
    return rows;
  }

  std::optional<SqlWords> sql_words() const override {
    return SqlWords{.table = table_,
                    .set_time_zone = "SET LOCAL TimeZone = 'America/St_Johns'",
                    .micros_of_created_at = "(extract(epoch FROM created_at) * 1000000)::bigint",
                    .json_x = "payload::jsonb ->> 'x'",
                    .json_n_deep_1 = "payload::jsonb #>> '{n,deep,1}'",
                    .a_day_ago = "now() - interval '1 day'"};
  }

  Remote* remote() override {
    if (!remote_) remote_.emplace(schema_->name(), options({}));
    return &*remote_;
  }
  Database* database() override { return remote(); }

 protected:
  virtual postgres::Options options(const Wishes& wishes) const {
    return wished(postgres::Options{.table = table_}, wishes);
  }
  virtual bool by_position() const { return false; }

 private:
  std::optional<test::Schema> schema_;
  std::string table_;
  std::optional<PostgresRemote> remote_;
};

class PositionBackend final : public PostgresBackend {
 public:
  using PostgresBackend::PostgresBackend;

  bool removes_done() const override { return false; }

  // What happens in between is told by the rows of events there.
  bool interrupt(Store& /*store*/, const std::string& /*sql*/,
                 const std::function<void()>& /*work*/) override {
    return false;
  }

 protected:
  postgres::Options options(const Wishes& wishes) const override {
    postgres::Options by_position = PostgresBackend::options(wishes);
    by_position.progress = Progress::position;
    return by_position;
  }
  bool by_position() const override { return true; }
};

class PgBouncerBackend final : public PostgresBackend {
 public:
  using PostgresBackend::PostgresBackend;

  std::shared_ptr<Store> open(const Wishes& wishes) override {
    postgres::Options behind = options(wishes);
    behind.prepare = false;
    behind.notify = false;
    return postgres::open(test::pgbouncer_url(), behind);
  }
};

// Whatever a role may be set to that changes a result or stops a statement. What users'
// transactions are to keep to is set so that those of the suite can live with it.
constexpr const char* kHostileSettings[] = {
    "default_transaction_deferrable = on",
    "row_security = off",
    "array_nulls = off",
    "standard_conforming_strings = off",
    "transform_null_equals = on",
    "extra_float_digits = -15",
    "bytea_output = escape",
    "\"DateStyle\" = 'SQL, DMY'",
    "\"IntervalStyle\" = sql_standard",
    "\"TimeZone\" = 'Australia/Lord_Howe'",
    "client_encoding = 'LATIN1'",
    "search_path = 'pg_catalog'",
    "synchronous_commit = off",
    "plan_cache_mode = force_custom_plan",
    "enable_indexscan = off",
    "enable_indexonlyscan = off",
    "enable_nestloop = off",
    "join_collapse_limit = 1",
    "from_collapse_limit = 1",
};

// A login whose sessions are set so: one for all tests, which run side by side.
std::string hostile_role(const std::string& isolation) {
  const std::string role = isolation == "serializable" ? "hostile_1" : "hostile_2";
  std::string text = "SELECT pg_advisory_xact_lock(hashtext('" + role +
                     "')); DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '" +
                     role + "') THEN CREATE ROLE " + role + " SUPERUSER LOGIN; ";
  for (const char* setting : kHostileSettings) {
    text.append("ALTER ROLE ").append(role).append(" SET ").append(setting).append("; ");
  }
  text += "ALTER ROLE " + role + " SET default_transaction_isolation = '" + isolation + "'; ";
  text +=
      "IF current_setting('server_version_num')::integer >= 140000 THEN "
      "ALTER ROLE " +
      role + " SET idle_session_timeout = '1s'; END IF; END IF; END $$";
  test::Sql(test::postgres_url()).execute(text);
  return role;
}

std::string url_of(const std::string& role, const std::string& url) {
  const auto login = url.find("//") + 2;
  return url.substr(0, login) + role + url.substr(url.find('@'));
}

class HostileBackend final : public PostgresBackend {
 public:
  using PostgresBackend::PostgresBackend;

  std::shared_ptr<Store> open(const Wishes& wishes) override {
    return postgres::open(url_of(hostile_role("serializable"), test::postgres_url()),
                          options(wishes));
  }
};

class HostileBehindPgBouncerBackend final : public PostgresBackend {
 public:
  using PostgresBackend::PostgresBackend;

  std::shared_ptr<Store> open(const Wishes& wishes) override {
    postgres::Options behind = options(wishes);
    behind.prepare = false;
    behind.notify = false;
    return postgres::open(url_of(hostile_role("repeatable read"), test::pgbouncer_url()), behind);
  }
};

class UnpreparedBackend final : public PostgresBackend {
 public:
  using PostgresBackend::PostgresBackend;

 protected:
  postgres::Options options(const Wishes& wishes) const override {
    postgres::Options unprepared = PostgresBackend::options(wishes);
    unprepared.prepare = false;
    return unprepared;
  }
};

class AtCommitBackend final : public PostgresBackend {
 public:
  using PostgresBackend::PostgresBackend;

 protected:
  postgres::Options options(const Wishes& wishes) const override {
    postgres::Options with_commit = PostgresBackend::options(wishes);
    with_commit.insert_at_commit = true;
    return with_commit;
  }
};

}  // namespace

TEST(PostgresPositionPrivilegesTest, TheDocumentedGrantsAreEnough) {
  OUTBOX_NEEDS_POSTGRES();
  const test::Schema schema;
  const std::string table = schema.name() + ".outbox_event";
  postgres::open(test::postgres_url(), {.table = table, .progress = Progress::position});
  PostgresRoles roles(schema.name());
  roles.grant("-- Progress by position: the cursors, the delivery rows, and what operators read.");
  testing::RecordingLog log;
  const auto store_as = [&](const std::string& role) {
    return postgres::open(roles.url_as(role), {.table = table, .migrate = false, .log = log.log()});
  };

  const auto listener = std::make_shared<testing::RecordingListener>(
      [](const Event& event, const Delivery& delivery) {
        if (event.id() == "dies") throw PermanentError("no");
        if (event.id() == "fails" && delivery.attempt < 2) throw RetryableError("not yet");
        return Outcome::done();
      });
  Listeners listeners;
  listeners.add(kGlobalAggregate, "Happened", listener);
  Outbox box(store_as("dispatcher"), listeners, {.poll_interval = 50ms, .log = log.log()});
  box.start();
  const auto writes = store_as("writer");
  for (const char* id : {"works", "dies", "fails"}) {
    test::write_event(*writes, test::simple_event(id));
  }
  EXPECT_TRUE(listener->wait_for(4));
  EXPECT_TRUE(box.wait_idle(20s));
  box.close();
  for (const auto& line : log.lines()) EXPECT_EQ(line.text.find("42501"), std::string::npos);

  const auto store = store_as("janitor");
  EXPECT_EQ(store->counts().dead, 1);
  EXPECT_EQ(store->admin().find("fails")->row.status, Status::done);
  EXPECT_EQ(store->admin().list({}, 0, 10).size(), 3u);
  EXPECT_TRUE(store->admin().held_aggregates(10).empty());
  EXPECT_TRUE(store->admin().members().empty());
  const Time later = host_clock().now() + 1h;
  EXPECT_EQ(store->admin().count_purgeable(Purgeable::done, later), 2);
  EXPECT_EQ(store->admin().purge(Purgeable::done, later, 0, 1, true).rows, 1);
  EXPECT_EQ(store->admin().purge(Purgeable::done, later, 0, 1, false).rows, 1);
  EXPECT_TRUE(store->admin().replay("dies"));
  EXPECT_FALSE(store->admin().discard("dies"));
}

// Only writing is different then.
OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresAtCommit, WritingTest,
                                 factory<AtCommitBackend>("AtCommit", "outbox_event"));
OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresAtCommit, StatementsTest,
                                 factory<AtCommitBackend>("AtCommit", "outbox_event"));

// What positions have to do with the connection.
OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresByPosition, NetworkTest,
                                 factory<PositionBackend>("Direct", "outbox_event"));
OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresByPosition, FrozenTest,
                                 factory<PositionBackend>("Direct", "outbox_event"));
OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresByPosition, LateCommitTest,
                                 factory<PositionBackend>("Direct", "outbox_event"));

OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresUnprepared, ServersClockTest,
                                 factory<UnpreparedBackend>("Unprepared", "outbox_event"));
OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresAtCommit, NetworkCommitTest,
                                 factory<AtCommitBackend>("AtCommit", "outbox_event"));
OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresAtCommit, FrozenCommitTest,
                                 factory<AtCommitBackend>("AtCommit", "outbox_event"));

}  // namespace outbox::conformance

OUTBOX_STORE_CONFORMANCE(Postgres, factory<PostgresBackend>("Direct", "outbox_event"),
                         factory<PgBouncerBackend>("BehindPgBouncer", "shop_events"));
OUTBOX_STORE_CONFORMANCE(PostgresHostile, factory<HostileBackend>("Direct", "outbox_event"),
                         factory<HostileBehindPgBouncerBackend>("BehindPgBouncer", "shop_events"));
OUTBOX_STORE_CONFORMANCE(PostgresByPosition, factory<PositionBackend>("Direct", "outbox_event"));
OUTBOX_DATABASE_CONFORMANCE(Postgres, factory<PostgresBackend>("Direct", "outbox_event"));
OUTBOX_SERVER_CONFORMANCE(Postgres, factory<PostgresBackend>("Direct", "outbox_event"));
