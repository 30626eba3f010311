// `outbox subscriptions`, and --subscription, on a table that keeps its progress by position.
#include <optional>

#include "cli_runner.h"
#include "support/services.h"
#ifdef OUTBOX_WITH_POSTGRES
#include "outbox/postgres.h"
#include "support/postgres.h"
#endif

namespace outbox::e2e {
namespace {

#ifdef OUTBOX_WITH_POSTGRES

std::string url_in(const test::Schema& schema) {
  return test::postgres_url() + "?options=-csearch_path%3D" + schema.name();
}

class SubscriptionsCli : public CliTest {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_SERVICE("OUTBOX_TEST_POSTGRES");
    schema_.emplace();
    ASSERT_EQ(run({"migrate", "up", "--progress", "position"}).code, 0);
  }

  std::string url() const override { return url_in(*schema_); }
  std::shared_ptr<Store> store() const override { return postgres::open(url()); }

  // One delivers all that is there.
  void deliver(const std::string& subscription, bool dead = false) const {
    const auto receiver = store()->subscription(subscription);
    const auto instance = receiver->join({});
    const Lease lease = instance->renew();
    std::vector<StatusUpdate> updates;
    for (const Row& row : instance->ready(lease.shards, 0, 1'000).rows) {
      updates.push_back({.row = row.ref,
                         .event_id = row.event.id(),
                         .kind = dead ? StatusUpdate::Kind::dead : StatusUpdate::Kind::done,
                         .error = dead ? "refused" : ""});
    }
    instance->apply(lease.epoch, updates);
    instance->leave();
  }

 private:
  std::optional<test::Schema> schema_;
};

TEST_F(SubscriptionsCli, ListsThemAndHowFarTheyAre) {
  EXPECT_EQ(run({"subscriptions", "create", "billing"}).code, 0);
  EXPECT_EQ(run({"subscriptions", "create", "search", "--begin", "now"}).code, 0);
  publish("OrderPlaced");
  deliver("search");
  const auto lines = run({"subscriptions", "list", "--json"}).json_lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["name"], "billing");
  EXPECT_EQ(lines[0]["pending"], 1);
  EXPECT_GT(lines[0]["pending_bytes"], 0);
  EXPECT_EQ(lines[1]["name"], "search");
  EXPECT_EQ(lines[1]["pending"], 0);

  const Result status = run({"status"});
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_TRUE(contains(status.out, "billing"));
  EXPECT_TRUE(contains(status.err, "outbox status --subscription NAME"));
  EXPECT_EQ(run({"status", "--subscription", "billing", "--json"}).json()["pending"], 1);
  EXPECT_EQ(run({"status", "--subscription", "search", "--json"}).json()["pending"], 0);
}

TEST_F(SubscriptionsCli, TheOnlyOneNeedNotBeNamed) {
  EXPECT_EQ(run({"subscriptions", "create", "billing"}).code, 0);
  publish("OrderPlaced");
  EXPECT_EQ(run({"status", "--json"}).json()["pending"], 1);
  EXPECT_EQ(run({"events", "list", "--json"}).json_lines().size(), 1u);
}

TEST_F(SubscriptionsCli, DeadEventsAreOfOne) {
  EXPECT_EQ(run({"subscriptions", "create", "default"}).code, 0);
  EXPECT_EQ(run({"subscriptions", "create", "billing", "--begin", "now"}).code, 0);
  const std::string id = publish("OrderPlaced");
  deliver("billing", true);
  deliver("default");
  EXPECT_EQ(run({"dead", "list", "--json"}).json_lines().size(), 0u);
  EXPECT_EQ(run({"dead", "list", "--json", "--subscription", "billing"}).json_lines().size(), 1u);
  EXPECT_EQ(run({"events", "show", id, "--json"}).json()["status"], "DONE");
  EXPECT_EQ(run({"events", "show", id, "--json", "--subscription", "billing"}).json()["status"],
            "DEAD");
  EXPECT_EQ(run({"dead", "replay", id}).code, 1);
  EXPECT_EQ(run({"dead", "replay", id, "--subscription", "billing"}).code, 0);
}

TEST_F(SubscriptionsCli, AreRenamedAndDropped) {
  EXPECT_EQ(run({"subscriptions", "create", "default"}).code, 0);
  EXPECT_EQ(run({"subscriptions", "create", "billing", "--begin", "beginning"}).code, 0);
  EXPECT_EQ(run({"subscriptions", "rename", "billing", "invoices"}).code, 0);
  publish("OrderPlaced");
  Result result = run({"subscriptions", "drop", "invoices"});
  EXPECT_EQ(result.code, 64);
  EXPECT_TRUE(contains(result.err, "--yes"));
  result = run_at_terminal({"subscriptions", "drop", "invoices"}, {.input = "n\n"});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.out, "1 pending and 0 dead events"));
  EXPECT_EQ(run({"subscriptions", "drop", "invoices", "--yes"}).code, 0);
  result = run({"subscriptions", "drop", "default", "--yes"});
  EXPECT_EQ(result.code, 78);
  EXPECT_TRUE(contains(result.err, "the only one of the table"));
}

TEST_F(SubscriptionsCli, APurgeStopsThoseThatLag) {
  EXPECT_EQ(run({"subscriptions", "create", "default"}).code, 0);
  EXPECT_EQ(run({"subscriptions", "create", "billing", "--begin", "now"}).code, 0);
  publish("OrderPlaced");
  deliver("default");
  const Result purged = run({"purge", "--max-lag", "0s", "--done-older-than", "0s", "--yes"});
  EXPECT_EQ(purged.code, 0) << purged.err;
  EXPECT_TRUE(contains(purged.err, "The subscription \"billing\" is stopped"));
  EXPECT_TRUE(contains(purged.out, "removed          1"));
  const Result list = run({"subscriptions", "list"});
  EXPECT_TRUE(contains(list.out, "stopped"));
  EXPECT_TRUE(contains(list.err, "was still pending"));
  EXPECT_EQ(run({"subscriptions", "restart", "billing"}).code, 64);
  EXPECT_EQ(run({"subscriptions", "restart", "billing", "--begin", "now"}).code, 0);
}

TEST_F(SubscriptionsCli, TheDoctorExaminesEach) {
  const Result alone = run({"doctor"});
  EXPECT_EQ(alone.code, 0) << alone.out;
  EXPECT_TRUE(contains(alone.out, "Everything is in order"));
  EXPECT_EQ(run({"subscriptions", "create", "default"}).code, 0);
  EXPECT_EQ(run({"subscriptions", "create", "billing", "--begin", "now"}).code, 0);
  publish("OrderPlaced");
  deliver("default", true);
  Result doctor = run({"doctor"});
  EXPECT_EQ(doctor.code, 0) << doctor.out;
  EXPECT_TRUE(contains(doctor.out, "\"default\": no events"));
  EXPECT_TRUE(contains(doctor.out, "\"billing\": 1 event of "));
  EXPECT_TRUE(contains(doctor.out, "outbox dead groups --db"));
  EXPECT_TRUE(contains(doctor.out, "--subscription default shows the errors"));
  EXPECT_EQ(run({"purge", "--max-lag", "0s", "--yes"}).code, 0);
  doctor = run({"doctor"});
  EXPECT_TRUE(contains(doctor.out, "\"billing\" was stopped"));
}

TEST_F(SubscriptionsCli, WhatIsWrongIsSaid) {
  Result result = run({"subscriptions", "create", "billing", "--begin", "yesterday"});
  EXPECT_EQ(result.code, 64);
  EXPECT_TRUE(contains(result.err, "takes now or beginning, got \"yesterday\""));
  result = run({"status", "--subscription", "nobody"});
  EXPECT_EQ(result.code, 78);
  EXPECT_TRUE(contains(result.err, "no subscription \"nobody\""));
}

TEST_F(SubscriptionsCli, TheSchemaCanBePrinted) {
  const Result printed =
      run({"migrate", "print", "--db", "postgresql://", "--progress", "position"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  const test::Schema other;
  test::Sql(url_in(other)).execute(printed.out);
  test::Sql(url_in(other)).execute(printed.out);  // harmless
  EXPECT_EQ(postgres::open(url_in(other))->capabilities().progress, Progress::position);
}

#endif

class NoSubscriptionsCli : public CliTest {};

TEST_F(NoSubscriptionsCli, IsSaidWhereThereAreNone) {
  ASSERT_EQ(run({"migrate", "up"}).code, 0);
  EXPECT_TRUE(contains(run({"subscriptions", "list"}).err, "does not support subscriptions"));
  EXPECT_TRUE(contains(run({"status", "--subscription", "billing"}).err,
                       "several need progress by position"));
  EXPECT_EQ(run({"migrate", "up", "--progress", "position"}).code, 64);
}

}  // namespace
}  // namespace outbox::e2e
