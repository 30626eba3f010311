// The suite on the PostgreSQL store, each test in a schema of its own: once on the
// server itself, and once behind PgBouncer in transaction mode.
#include <libpq-fe.h>

#include <future>
#include <optional>

#include "network.h"
#include "outbox/postgres.h"
#include "support/postgres.h"
#include "support/stores.h"

namespace outbox::conformance {
namespace {

class PostgresRemote final : public Remote {
 public:
  explicit PostgresRemote(postgres::Options options) : options_(std::move(options)) {
    options_.notify = false;
  }

  int port() const override { return test::port_of(test::postgres_url()); }

  std::shared_ptr<Store> open_at(int port, Logger log, bool marked) override {
    postgres::Options options = options_;
    options.log = std::move(log);
    if (marked) {
      options.on_open = [](pg_conn* handle) {
        PQclear(PQexec(handle, "SET application_name = 'mine'"));
      };
    }
    return postgres::open(test::with_port(test::postgres_url(), port), std::move(options));
  }
  bool is_marked(Connection& connection) override {
    return connection.query("SHOW application_name", {}).at(0).at(0) == Value{"mine"};
  }

  std::int64_t rows() override {
    test::Sql sql;
    sql.execute("BEGIN; SET LOCAL lock_timeout = '20s'; LOCK TABLE " + options_.table + "; COMMIT");
    return std::stoll(sql.value("SELECT count(*) FROM " + options_.table));
  }

  std::string session_of(Connection& connection) override {
    return std::to_string(
        connection.query("SELECT pg_backend_pid()", {}).at(0).get<std::int64_t>(0));
  }
  void end_session(const std::string& session) override {
    test::Sql().execute("SELECT pg_terminate_backend(" + session + ", 10000)");
  }
  bool end_all_sessions() override {
    const std::string schema = options_.table.substr(0, options_.table.find('.'));
    test::Sql().execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%" +
        schema + "%' AND pid <> pg_backend_pid()");
    return true;
  }

  std::string reply_to_commit() const override { return "COMMIT"; }
  bool engine_commits() const override { return false; }

 private:
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
    const auto [events, instances] = test::Sql::made_earlier(table_, by);
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
                    .json_n_deep_1 = "payload::jsonb #>> '{n,deep,1}'"};
  }

  Remote* remote() override {
    if (!remote_) remote_.emplace(options({}));
    return &*remote_;
  }

  bool insert_raw(Store& store, const RawRow& row) override {
    const auto connection = store.connect();
    connection->begin();
    connection->execute(
        "INSERT INTO " + table_ +
            " (event_id, event_type, headers, payload) VALUES ($1, 'Raw', $2, '{}')",
        std::vector<Parameter>{row.id, row.headers ? Value{*row.headers} : nullptr});
    connection->commit();
    return true;
  }

 protected:
  virtual postgres::Options options(const Wishes& wishes) const {
    return {
        .table = table_,
        .on_done = wishes.remove_done ? postgres::OnDone::remove : postgres::OnDone::keep,
        .connections = wishes.connections,
        .wait_timeout = wishes.wait_timeout,
    };
  }

 private:
  std::optional<test::Schema> schema_;
  std::string table_;
  std::optional<PostgresRemote> remote_;
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

// Only writing is different then.
OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresAtCommit, WritingTest,
                                 factory<AtCommitBackend>("AtCommit", "outbox_event"));
OUTBOX_STORE_CONFORMANCE_SUBJECT(PostgresAtCommit, StatementsTest,
                                 factory<AtCommitBackend>("AtCommit", "outbox_event"));

OUTBOX_STORE_CONFORMANCE_SUBJECT(Postgres, NetworkTest,
                                 factory<PostgresBackend>("Direct", "outbox_event"));
OUTBOX_STORE_CONFORMANCE_SUBJECT(Postgres, NetworkCommitTest,
                                 factory<PostgresBackend>("Direct", "outbox_event"),
                                 factory<AtCommitBackend>("AtCommit", "outbox_event"));

}  // namespace outbox::conformance

OUTBOX_STORE_CONFORMANCE(Postgres, factory<PostgresBackend>("Direct", "outbox_event"),
                         factory<PgBouncerBackend>("BehindPgBouncer", "shop_events"));
OUTBOX_STORE_CONFORMANCE(PostgresHostile, factory<HostileBackend>("Direct", "outbox_event"),
                         factory<HostileBehindPgBouncerBackend>("BehindPgBouncer", "shop_events"));
