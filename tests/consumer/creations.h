// What the tests of idempotent creation share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "database.h"
#include "outbox/consumer/idempotent_create.h"
#include "outbox/testing.h"

namespace outbox::patterns {

using Work = std::function<std::string(Transaction& tx, const NewIds& ids)>;

// A call on another thread that stops in its work until it is let go, or a test fails.
class StoppedCall {
 public:
  StoppedCall(IdempotentCreate& create, CreateRequest request, Work work)
      : result_(std::async(std::launch::async, [=, this, &create] {
          return create.run(request, [&](Transaction& tx, const NewIds& ids) {
            inside_.raise();
            let_go_.wait();
            return work(tx, ids);
          });
        })) {
    EXPECT_TRUE(inside_.wait());
  }
  ~StoppedCall() { let_go_.raise(); }
  StoppedCall(const StoppedCall&) = delete;
  StoppedCall& operator=(const StoppedCall&) = delete;

  void go_on() { let_go_.raise(); }
  Creation<> result() { return result_.get(); }

 private:
  testing::Signal inside_;
  testing::Signal let_go_;
  std::future<Creation<>> result_;  // last: it uses the others, and waits for its end
};

// Creates things: rows of a table without any key, so that one which is created twice is
// there twice, with an event each.
class CreationTest : public PatternTest {
 protected:
  void SetUp() override {
    PatternTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    execute(
        "CREATE TABLE thing (internal_id VARCHAR(64) NOT NULL, public_id VARCHAR(64) NOT NULL)");
    open_writer();
  }

  void open_writer(std::shared_ptr<Store> on = {}) {
    writer_ =
        std::make_unique<Writer>(on ? std::move(on) : store(), WriterOptions{.log = log_.log()});
  }

  // Before processes are copied of this one.
  void close_all() {
    writer_.reset();
    close_store();
  }
  void open_all() {
    open_store();
    open_writer();
  }

  CreateOptions quiet(CreateOptions options = {}) const {
    options.log = log_.log();
    return options;
  }

  static CreateRequest request(std::string key, std::string_view body = "body") {
    return {.tenant_id = "acme", .key = std::move(key), .body = std::string(body)};
  }

  static std::string make(Transaction& tx, const NewIds& ids) {
    tx.execute("INSERT INTO thing VALUES ('" + ids.internal_id + "', '" + ids.public_id + "')");
    tx.write({.type = "ThingMade", .payload = json("\"" + ids.public_id + "\"")});
    return ids.public_id;
  }

  // What must not be called.
  static std::string never(Transaction&, const NewIds&) {
    ADD_FAILURE() << "the work was called";
    return "never";
  }

  // One that is claimed by a call which is gone: it died after its claim.
  void leave_claim(const std::string& key) {
    CreateOptions options = quiet();
    IdempotentCreate create{*writer_, options};
    EXPECT_THROW(create.run(request(key),
                            [](Transaction&, const NewIds&) -> std::string {
                              throw std::runtime_error("died");
                            }),
                 std::runtime_error);
    execute("UPDATE " + table() + " SET state = 0, last_error = NULL WHERE request_key = '" + key +
            "'");
  }

  // All leases are over.
  void end_leases() { shift("creation", "lease_until", std::chrono::hours{24}); }

  std::string table() const { return store()->side_table("creation"); }
  std::int64_t things() { return number("SELECT count(*) FROM thing"); }
  std::int64_t events() { return number("SELECT count(*) FROM outbox_event"); }
  std::int64_t records() { return number("SELECT count(*) FROM " + table()); }

  // "state attempts result_ref last_error" of the one record with this key.
  std::string record(const std::string& key) {
    const auto rows = query("SELECT state, attempts, result_ref, last_error FROM " + table() +
                            " WHERE request_key = '" + key + "'");
    if (rows.size() != 1) return std::to_string(rows.size()) + " records";
    const auto text = [&](std::size_t column) {
      return rows[0].get<std::optional<std::string>>(column).value_or("-");
    };
    return std::to_string(rows[0].get<std::int64_t>(0)) + " " +
           std::to_string(rows[0].get<std::int64_t>(1)) + " " + text(2) + " " + text(3);
  }

  // That exactly one thing was made, with these ids, and told of once.
  void expect_one(const Creation<>& creation) {
    EXPECT_EQ(things(), 1);
    EXPECT_EQ(events(), 1);
    EXPECT_EQ(number("SELECT count(*) FROM thing WHERE internal_id = '" + creation.ids.internal_id +
                     "' AND public_id = '" + creation.ids.public_id + "'"),
              1);
    EXPECT_EQ(*creation.result, creation.ids.public_id);
  }

  testing::RecordingLog log_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace outbox::patterns
