// Executors: stand-ins, over libpq and libmariadb, for the client libraries that Debian does not
// have. They see a statement's text and nothing else.
#include <libpq-fe.h>
#include <mysql.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <queue>
#include <stdexcept>
#include <thread>

#include "adapters/adapter_test.h"
#include "outbox/adapter/executor.h"
#include "outbox/consumer/idempotent_create.h"
#include "outbox/consumer/inbox.h"

namespace outbox::adapters {
namespace {

ExecutorResult run_on(PGconn* connection, const std::string& sql) {
  const std::unique_ptr<PGresult, decltype(&PQclear)> result{PQexec(connection, sql.c_str()),
                                                             &PQclear};
  const auto status = PQresultStatus(result.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    throw std::runtime_error(PQresultErrorMessage(result.get()));
  }
  ExecutorResult answer;
  const std::string changed = PQcmdTuples(result.get());
  if (!changed.empty()) answer.changed = std::stoll(changed);
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    std::vector<Value> values;
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      if (PQgetisnull(result.get(), row, column) != 0) {
        values.emplace_back(nullptr);
      } else {
        values.emplace_back(std::string(PQgetvalue(result.get(), row, column)));
      }
    }
    answer.rows.push_back(std::move(values));
  }
  return answer;
}

ExecutorResult run_on(MYSQL* connection, const std::string& sql) {
  if (mysql_real_query(connection, sql.data(), sql.size()) != 0) {
    throw std::runtime_error(mysql_error(connection));
  }
  ExecutorResult answer{.last_insert_id = static_cast<std::int64_t>(mysql_insert_id(connection))};
  const std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> result{
      mysql_store_result(connection), &mysql_free_result};
  if (!result) {
    answer.changed = static_cast<std::int64_t>(mysql_affected_rows(connection));
    return answer;
  }
  while (char** row = mysql_fetch_row(result.get())) {
    const unsigned long* lengths = mysql_fetch_lengths(result.get());
    std::vector<Value> values;
    for (unsigned column = 0; column < mysql_num_fields(result.get()); ++column) {
      if (row[column] == nullptr) {
        values.emplace_back(nullptr);
      } else {
        values.emplace_back(std::string(row[column], lengths[column]));
      }
    }
    answer.rows.push_back(std::move(values));
  }
  return answer;
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

template <class Sql>
class ExecutorOwner final : public Owner {
 public:
  explicit ExecutorOwner(const Place& place) {
    if constexpr (std::is_same_v<Sql, test::Mysql>) run("USE " + place.name());
  }
  void begin() override { run("BEGIN"); }
  void commit() override { run("COMMIT"); }
  void rollback() override { run("ROLLBACK"); }
  void run(const std::string& sql) override { sql_.execute(sql); }
  std::unique_ptr<Connection> wrap(Store& store) override {
    return outbox::wrap(
        [this](const std::string& sql) {
          EXPECT_TRUE(is_ascii(sql)) << sql;
          return run_on(sql_.handle(), sql);
        },
        store);
  }
  bool sees_transaction() const override { return false; }

  auto handle() const { return sql_.handle(); }

 private:
  Sql sql_;
};

INSTANTIATE_TEST_SUITE_P(PostgresExecutor, AdapterSuite,
                         ::testing::Values(Library{
                             Dialect::postgres, [](const Place& place) {
                               return std::make_unique<ExecutorOwner<test::Sql>>(place);
                             }}));
INSTANTIATE_TEST_SUITE_P(MysqlExecutor, AdapterSuite,
                         ::testing::Values(Library{
                             Dialect::mysql, [](const Place& place) {
                               return std::make_unique<ExecutorOwner<test::Mysql>>(place);
                             }}));

// Runs statements later, on a thread of its own, as the loop of an asynchronous library does.
class Loop {
 public:
  void post(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    tasks_.push(std::move(task));
    changed_.notify_one();
  }

  // Until then nothing runs.
  void start() {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

 private:
  void run(const std::stop_token& stop) {
    while (true) {
      std::function<void()> task;
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return !tasks_.empty(); })) return;
        task = std::move(tasks_.front());
        tasks_.pop();
      }
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::queue<std::function<void()>> tasks_;
  std::jthread thread_;
};

// What a write came to.
struct Ended {
  std::exception_ptr error;
  WriteToken token;
};

struct NotingHook final : WriterHook {
  void after_write(std::span<const Written> events) override { written += events.size(); }
  void after_commit(std::span<const Written> events) override { committed += events.size(); }
  void after_rollback(std::span<const Written> events) override { rolled_back += events.size(); }
  std::size_t written = 0;
  std::size_t committed = 0;
  std::size_t rolled_back = 0;
};

template <Dialect kind, class Sql>
class AsyncTest : public PlacedAdapterTest<kind> {
 protected:
  using Base = PlacedAdapterTest<kind>;

  void SetUp() override {
    Base::SetUp();
    if (this->HasFatalFailure() || this->IsSkipped()) return;
    owner_ = std::make_unique<ExecutorOwner<Sql>>(*this->place_);
    this->writer_ = std::make_unique<Writer>(this->store_, WriterOptions{.hooks = {hook_}});
  }

  AsyncExecutor executor() {
    return [this](const std::string& sql, ExecutorDone done) {
      loop_.post([this, sql, done = std::move(done)] {
        ExecutorResult result;
        try {
          result = run_on(owner_->handle(), sql);
        } catch (...) {
          return done({}, std::current_exception());
        }
        done(std::move(result), nullptr);
      });
    };
  }

  std::future<Ended> begin_write(std::vector<Draft> drafts) {
    const auto ended = std::make_shared<std::promise<Ended>>();
    write_async(*this->writer_, executor(), std::move(drafts),
                [ended](std::exception_ptr error, WriteToken token) {
                  ended->set_value({std::move(error), std::move(token)});
                });
    return ended->get_future();
  }

  std::vector<Draft> many(int count) {
    std::vector<Draft> drafts;
    for (int i = 0; i < count; ++i) drafts.push_back(this->draft(std::to_string(i)));
    return drafts;
  }

  void writes_without_waiting() {
    owner_->begin();
    auto ended = begin_write(many(1'203));
    EXPECT_EQ(ended.wait_for(std::chrono::seconds{0}), std::future_status::timeout);
    EXPECT_EQ(hook_->written, 0U);
    loop_.start();
    Ended end = ended.get();
    EXPECT_FALSE(end.error);
    EXPECT_EQ(end.token.ids().size(), 1'203U);
    EXPECT_EQ(hook_->written, 1'203U);
    owner_->commit();
    end.token.committed();
    EXPECT_EQ(hook_->committed, 1'203U);
    EXPECT_EQ(this->rows(), 1'203);
    EXPECT_EQ(this->store_->admin().list({}, 0, 3).at(2).row.event.id(), "2");
  }

  void tells_of_failures() {
    loop_.start();
    owner_->begin();
    EXPECT_FALSE(begin_write(many(1)).get().error);
    owner_->commit();
    owner_->begin();
    const Ended end = begin_write(many(2)).get();
    EXPECT_THROW(std::rethrow_exception(end.error), std::runtime_error) << "the id is taken";
    EXPECT_TRUE(end.token.ids().empty());
    EXPECT_EQ(hook_->written, 1U);
    owner_->rollback();
    EXPECT_EQ(this->rows(), 1);

    Draft wrong = this->draft("wrong");
    wrong.type = "";
    EXPECT_THROW(begin_write({wrong}), MisuseError) << "at once";
    EXPECT_FALSE(begin_write({}).get().error) << "nothing to do";

    const auto failing = [](const std::string&, const ExecutorDone&) {
      throw std::logic_error("not connected");
    };
    std::exception_ptr error;
    write_async(*this->writer_, failing, many(1),
                [&](std::exception_ptr what, const WriteToken&) { error = std::move(what); });
    EXPECT_THROW(std::rethrow_exception(error), std::logic_error);
  }

  void asks_the_inbox() {
    loop_.start();
    Inbox inbox{this->store_};
    const auto first = [&] {
      std::promise<bool> answer;
      inbox.first_async(executor(), "group", "é", [&](std::exception_ptr error, bool is_first) {
        if (error) return answer.set_exception(std::move(error));
        answer.set_value(is_first);
      });
      return answer.get_future().get();
    };
    owner_->begin();
    EXPECT_TRUE(first());
    owner_->rollback();
    owner_->begin();
    EXPECT_TRUE(first());
    EXPECT_FALSE(first());
    owner_->commit();
  }

  void asks_the_version_guard() {
    loop_.start();
    VersionGuard guard{this->store_};
    const auto advance = [&](std::int64_t version) {
      std::promise<bool> answer;
      guard.advance_async(executor(), "group", "Article", "é", version,
                          [&](std::exception_ptr error, bool newer) {
                            if (error) return answer.set_exception(std::move(error));
                            answer.set_value(newer);
                          });
      return answer.get_future().get();
    };
    owner_->begin();
    EXPECT_TRUE(advance(2));
    EXPECT_FALSE(advance(2));
    EXPECT_TRUE(advance(3));
    owner_->commit();
  }

  void creates_once() {
    loop_.start();
    IdempotentCreate create{*this->writer_};
    const auto join = [&](const std::string& body, const std::string& failure = "") {
      std::promise<Creation<>> made;
      create.join_async(
          executor(), {.key = "kéy", .body = body},
          [&](const NewIds& ids, IdempotentCreate::Finish finish) {
            // As a library would, later; and it may throw no exception then.
            loop_.post([ids, finish = std::move(finish), failure] {
              if (failure.empty()) return finish(nullptr, ids.public_id);
              finish(std::make_exception_ptr(std::runtime_error(failure)), "");
            });
          },
          [&](std::exception_ptr error, Creation<> creation) {
            if (error) return made.set_exception(std::move(error));
            made.set_value(std::move(creation));
          });
      return made.get_future().get();
    };
    owner_->begin();
    EXPECT_THROW(join("body", "no"), std::runtime_error);
    owner_->rollback();
    owner_->begin();
    const Creation<> made = join("body");
    EXPECT_TRUE(made.created());
    EXPECT_EQ(made.result, made.ids.public_id);
    owner_->commit();
    owner_->begin();
    const Creation<> again = join("body");
    EXPECT_TRUE(again.repeated());
    EXPECT_EQ(again.result, made.result);
    EXPECT_THROW(join("another body"), KeyReusedError);
    owner_->rollback();
  }

  std::unique_ptr<ExecutorOwner<Sql>> owner_;
  const std::shared_ptr<NotingHook> hook_ = std::make_shared<NotingHook>();
  Loop loop_;
};

using PostgresAsyncTest = AsyncTest<Dialect::postgres, test::Sql>;
using MysqlAsyncTest = AsyncTest<Dialect::mysql, test::Mysql>;

TEST_F(PostgresAsyncTest, AWriteReturnsBeforeItsAnswers) { writes_without_waiting(); }
TEST_F(MysqlAsyncTest, AWriteReturnsBeforeItsAnswers) { writes_without_waiting(); }
TEST_F(PostgresAsyncTest, AFailureIsTold) { tells_of_failures(); }
TEST_F(MysqlAsyncTest, AFailureIsTold) { tells_of_failures(); }
TEST_F(PostgresAsyncTest, TheInboxAnswersLater) { asks_the_inbox(); }
TEST_F(MysqlAsyncTest, TheInboxAnswersLater) { asks_the_inbox(); }

TEST_F(PostgresAsyncTest, TheVersionGuardAnswersLater) { asks_the_version_guard(); }
TEST_F(MysqlAsyncTest, TheVersionGuardAnswersLater) { asks_the_version_guard(); }
TEST_F(PostgresAsyncTest, ACreationIsMadeOnce) { creates_once(); }
TEST_F(MysqlAsyncTest, ACreationIsMadeOnce) { creates_once(); }

class MysqlExecutorTest : public MysqlAdapterTest {};
class PostgresExecutorTest : public PostgresAdapterTest {};

TEST_F(MysqlExecutorTest, TablesOnAnotherServerAreRefused) {
  const auto mine = wrap(
      [](const std::string& sql) -> ExecutorResult {
        EXPECT_TRUE(sql.starts_with("SELECT")) << sql;
        return {.rows = {{std::string("2001-01-01 00:00:00"), std::int64_t{1}}}};
      },
      *store_);
  EXPECT_THROW(writer_->write(*mine, draft("e")), MisuseError);
}

TEST_F(PostgresExecutorTest, AnotherDatabaseIsRefused) {
  // The INSERT inserts nothing there.
  const auto mine = wrap([](const std::string&) -> ExecutorResult { return {}; }, *store_);
  EXPECT_THROW(writer_->write(*mine, draft("e")), MisuseError);
}

// A login that may insert events and read nothing writes nevertheless.
TEST_F(MysqlExecutorTest, WhatMayNotBeReadStopsNobody) {
  test::Mysql sql(test::mysql_url());
  sql.execute("USE " + place_->name());
  sql.execute("BEGIN");
  const auto mine = wrap(
      [&](const std::string& statement) {
        if (statement.starts_with("SELECT")) throw std::runtime_error("denied");
        return run_on(sql.handle(), statement);
      },
      *store_);
  writer_->write(*mine, draft("e"));
  sql.execute("COMMIT");
  EXPECT_EQ(rows(), 1);
}

TEST_F(MysqlExecutorTest, OfSeveralStatementsThatFailNoneLeavesRows) {
  test::Mysql sql(test::mysql_url());
  sql.execute("USE " + place_->name());
  sql.execute("BEGIN");
  const auto mine =
      wrap([&](const std::string& text) { return run_on(sql.handle(), text); }, *store_);
  std::vector<Draft> drafts;
  for (int i = 0; i < 600; ++i) drafts.push_back(draft(std::to_string(i)));
  drafts.back().id = "0";  // taken, by the first statement
  EXPECT_THROW(writer_->write_all(*mine, std::move(drafts)), std::runtime_error);
  writer_->write(*mine, draft("after"));
  sql.execute("COMMIT");
  EXPECT_EQ(rows(), 1);
}

TEST_F(MysqlExecutorTest, AnExecutorThatForgetsHowManyRowsChangedIsToldSo) {
  const auto mine = wrap([](const std::string&) -> ExecutorResult { return {}; }, *store_);
  EXPECT_THROW(writer_->write(*mine, draft("e")), MisuseError);
}

TEST_F(PostgresExecutorTest, WhatDependsOnASettingThatNobodyCanSeeIsRefused) {
  const auto mine = wrap([](const std::string&) -> ExecutorResult { return {}; }, *store_);
  const std::vector<Parameter> one{1};
  EXPECT_THROW(mine->execute(R"(SELECT '\', ?, '')", one), MisuseError);
  EXPECT_NO_THROW(mine->execute(R"(SELECT '\a', ?)", one));
  EXPECT_THROW(mine->execute("SELECT 1", one), MisuseError) << "a value too many";
}

}  // namespace
}  // namespace outbox::adapters
