// Several receivers of one table.
#include "outbox/error.h"
#include "store_conformance.h"
#include "support/stores.h"

namespace outbox::conformance {

using Ids = std::vector<std::string>;
using Kind = StatusUpdate::Kind;
using test::begun;
using test::contains;
using test::message_of;

void SubscriptionsTest::SetUp() {
  StoreTest::SetUp();
  if (!IsSkipped() && !capabilities().subscriptions) GTEST_SKIP() << "the store has none";
}

Owner SubscriptionsTest::serve(const std::string& name) {
  Owner owner{.instance = of(name)->join({}), .lease = {}};
  owner.lease = owner->renew();
  EXPECT_EQ(owner.shards().size(), static_cast<std::size_t>(capabilities().shards));
  return owner;
}

std::vector<std::string> SubscriptionsTest::names() {
  std::vector<std::string> names;
  for (const Subscription& one : admin().subscriptions()) names.push_back(one.name);
  return names;
}

namespace {

StatusUpdate update_of(const Row& row, Kind kind) {
  return {.row = row.ref, .event_id = row.event.id(), .kind = kind};
}

std::vector<StatusUpdate> updates_of(const std::vector<Row>& rows, Kind kind) {
  std::vector<StatusUpdate> updates;
  for (const Row& row : rows) updates.push_back(update_of(row, kind));
  return updates;
}

void finish(const Owner& owner, const std::vector<Row>& rows, Kind kind = Kind::done) {
  const UpdateResult result = owner.apply(updates_of(rows, kind));
  EXPECT_FALSE(result.fenced);
  EXPECT_TRUE(result.stale.empty());
  owner->flush(owner.lease.epoch, true);
}

TEST_P(SubscriptionsTest, EachGetsEveryEventAndFinishesItForItself) {
  admin().create_subscription("billing");
  admin().create_subscription("search", Begin::beginning);
  write_aggregate("42", {"a", "b", "c"});
  const Owner billing = serve("billing");
  const Owner search = serve("search");
  const std::vector<Row> rows = ready(billing);
  EXPECT_EQ(ids(rows), (Ids{"a", "b", "c"}));
  EXPECT_EQ(ids(ready(search)), (Ids{"a", "b", "c"}));

  finish(billing, rows);
  EXPECT_FALSE(of("billing")->has_pending());
  EXPECT_EQ(of("billing")->admin().find("a")->row.status, Status::done);
  EXPECT_TRUE(of("search")->has_pending());
  EXPECT_EQ(of("search")->counts().pending, 3);
  EXPECT_EQ(of("search")->admin().find("a")->row.status, Status::pending);
}

TEST_P(SubscriptionsTest, WhatFailsForOneIsItsAffairAlone) {
  admin().create_subscription("billing");
  admin().create_subscription("search", Begin::beginning);
  write_aggregate("42", {"a", "b"});
  const Owner billing = serve("billing");
  const Owner search = serve("search");
  const std::vector<Row> rows = ready(billing);
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_EQ(ready(search).size(), 2u);
  StatusUpdate dead = update_of(rows[0], Kind::dead);
  dead.lane = 5;
  StatusUpdate held = update_of(rows[1], Kind::hold);
  held.lane = 5;
  EXPECT_FALSE(billing.apply(std::vector{dead, held}).fenced);

  EXPECT_EQ(of("billing")->counts().dead, 1);
  EXPECT_EQ(of("billing")->counts().held, 1);
  EXPECT_EQ(of("search")->counts().dead, 0);
  EXPECT_EQ(of("search")->counts().held, 0);
  EXPECT_TRUE(search->held_lanes(rows[0].ref.shard, kNoLane, 10).empty());
  EXPECT_EQ(billing->held_lanes(rows[0].ref.shard, kNoLane, 10).size(), 1u);

  EXPECT_FALSE(of("search")->admin().replay("a")) << "it is not dead there";
  EXPECT_TRUE(of("billing")->admin().replay("a"));
  EXPECT_EQ(search->unblocked(search.shards(), 10).size(), 0u);
  EXPECT_EQ(billing->unblocked(billing.shards(), 10).size(), 1u);
}

TEST_P(SubscriptionsTest, OneIsReplayedToOneReceiver) {
  admin().create_subscription("billing");
  admin().create_subscription("search", Begin::beginning);
  write(event({.id = "a"}));
  const Owner billing = serve("billing");
  const Owner search = serve("search");
  finish(billing, ready(billing));
  finish(search, ready(search));
  EXPECT_TRUE(of("search")->admin().replay("a"));
  EXPECT_FALSE(of("billing")->has_pending());
  EXPECT_TRUE(of("search")->has_pending());
  EXPECT_EQ(search->due(search.shards(), 10).rows.size(), 1u);
  EXPECT_EQ(billing->due(billing.shards(), 10).rows.size(), 0u);
}

TEST_P(SubscriptionsTest, TheFirstTakesThePlaceOfTheDefaultOne) {
  EXPECT_EQ(names(), Ids{"default"});
  write(event({.id = "before"}));
  EXPECT_TRUE(admin().create_subscription("billing"));
  EXPECT_EQ(names(), Ids{"billing"});
  EXPECT_FALSE(admin().create_subscription("billing"));
  EXPECT_EQ(ids(ready(serve("billing"))), Ids{"before"});
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { store().join({})->renew(); }),
                       "the subscription \"default\""));
}

TEST_P(SubscriptionsTest, TheDefaultOneStaysIfItIsInUse) {
  EXPECT_FALSE(admin().create_subscription("default"));
  EXPECT_TRUE(admin().create_subscription("billing", Begin::now));
  EXPECT_EQ(names(), (Ids{"billing", "default"}));
}

TEST_P(SubscriptionsTest, AFurtherOneMustSayWhereItBegins) {
  const Owner owner = own_everything();
  const std::string refusal =
      message_of<MisuseError>([&] { admin().create_subscription("billing"); });
  EXPECT_TRUE(contains(refusal, "\"billing\" is new to the table"));
  EXPECT_TRUE(contains(refusal, "which has \"default\""));
  EXPECT_EQ(names(), Ids{"default"});
}

TEST_P(SubscriptionsTest, OneFromNowOnGetsWhatCommitsAfterwards) {
  const auto of_one = [&](const std::string& id) {
    return event({.id = id, .aggregate_type = "Order", .aggregate_id = "42"});
  };
  const Owner owner = own_everything();
  write(of_one("before"));
  const auto late = begun(store());
  const std::vector<Event> events{of_one("late")};
  late->insert(events, {});
  write(of_one("before, with a higher number"));
  admin().create_subscription("billing", Begin::now);
  EXPECT_FALSE(of("billing")->has_pending());
  late->commit();
  const Owner billing = serve("billing");
  write(of_one("after"));
  EXPECT_EQ(ids(ready(billing)), (Ids{"late", "after"}));
  EXPECT_EQ(ready(owner).size(), 4u);
}

TEST_P(SubscriptionsTest, OneFromTheBeginningGetsWhatIsThere) {
  const Owner owner = own_everything();
  write({event({.id = "a"}), event({.id = "b"})});
  finish(owner, ready(owner));
  admin().create_subscription("billing", Begin::beginning);
  EXPECT_EQ(ids(ready(serve("billing"))), (Ids{"a", "b"}));
}

TEST_P(SubscriptionsTest, APurgeWaitsForTheSlowest) {
  const Owner owner = own_everything();
  admin().create_subscription("billing", Begin::now);
  const Owner billing = serve("billing");
  write({event({.id = "a"}), event({.id = "b"})});
  const auto purge = [&] { return admin().purge(Purgeable::done, now() + 1h, 0, 10, false).rows; };
  finish(owner, ready(owner));
  EXPECT_EQ(admin().count_purgeable(Purgeable::done, now() + 1h), 0);
  EXPECT_EQ(purge(), 0);
  const std::vector<Row> rows = ready(billing);
  ASSERT_EQ(rows.size(), 2u);
  finish(billing, {rows[1]});
  EXPECT_EQ(admin().count_purgeable(Purgeable::done, now() + 1h), 1);
  EXPECT_EQ(purge(), 1) << "b";
  EXPECT_FALSE(admin().find("b").has_value());
  finish(billing, {rows[0]});
  EXPECT_EQ(of("billing")->admin().purge(Purgeable::done, now() + 1h, 0, 10, false).rows, 1);
  EXPECT_FALSE(admin().find("a").has_value());
}

TEST_P(SubscriptionsTest, TheDeadOfOneArePurgedAndOutliveTheEvent) {
  const Owner owner = own_everything();
  admin().create_subscription("billing", Begin::now);
  const Owner billing = serve("billing");
  write(event({.id = "a"}));
  finish(owner, ready(owner), Kind::dead);
  const std::vector<Row> rows = ready(billing);
  EXPECT_EQ(admin().purge(Purgeable::dead, now() + 1h, 0, 10, true).rows, 0)
      << "billing has not finished it";
  finish(billing, rows, Kind::dead);
  EXPECT_EQ(admin().count_purgeable(Purgeable::dead, now() + 1h), 2);
  EXPECT_EQ(admin().purge(Purgeable::dead, now() + 1h, 0, 10, true).rows, 1);
  EXPECT_EQ(store().counts().dead, 0);
  EXPECT_EQ(of("billing")->counts().dead, 0);
  EXPECT_EQ(backend().archived(store()).size(), 1u);
}

TEST_P(SubscriptionsTest, OneIsDropped) {
  const Owner owner = own_everything();
  admin().create_subscription("billing", Begin::now);
  const Owner billing = serve("billing");
  write({event({.id = "a"}), event({.id = "b"})});
  finish(owner, ready(owner));
  const std::vector<Row> rows = ready(billing);
  finish(billing, {rows[0]}, Kind::dead);

  admin().drop_subscription("billing");
  EXPECT_EQ(names(), Ids{"default"});
  EXPECT_TRUE(billing.apply(updates_of({rows[1]}, Kind::retry)).fenced);
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { billing->renew(); }), "does not exist"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { of("billing"); }), "no subscription"));
  EXPECT_EQ(admin().purge(Purgeable::done, now() + 1h, 0, 10, false).rows, 2)
      << "it keeps nothing any more";
}

TEST_P(SubscriptionsTest, TheLastOneIsNotDropped) {
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { admin().drop_subscription("default"); }),
                       "the only one"));
  EXPECT_TRUE(contains(message_of<MisuseError>([&] { admin().drop_subscription("nobody"); }),
                       "the table has \"default\""));
}

TEST_P(SubscriptionsTest, OneThatIsMadeAgainWaitsForThoseWhoMayStillServeIt) {
  const Owner owner = own_everything();
  admin().create_subscription("billing", Begin::now);
  const Owner billing = serve("billing");
  admin().drop_subscription("billing");
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { admin().create_subscription("billing", Begin::now); }),
               "may deliver its events"));
  billing->leave();
  EXPECT_TRUE(admin().create_subscription("billing", Begin::now));
}

TEST_P(SubscriptionsTest, OneIsRenamedWithAllThatItHas) {
  const Owner owner = own_everything();
  admin().create_subscription("billing", Begin::now);
  write({event({.id = "a"}), event({.id = "b"}), event({.id = "c"})});
  {
    const Owner billing = serve("billing");
    const std::vector<Row> rows = ready(billing);
    finish(billing, {rows[0]});
    finish(billing, {rows[1]}, Kind::dead);
    EXPECT_TRUE(contains(
        message_of<MisuseError>([&] { admin().rename_subscription("billing", "invoices"); }),
        "cannot be renamed while"));
    billing->leave();
  }
  admin().rename_subscription("billing", "invoices");
  EXPECT_EQ(names(), (Ids{"default", "invoices"}));
  const Owner invoices = serve("invoices");
  EXPECT_EQ(ids(ready(invoices)), Ids{"c"});
  EXPECT_EQ(of("invoices")->counts().dead, 1);
  EXPECT_TRUE(
      contains(message_of<MisuseError>([&] { admin().rename_subscription("invoices", "default"); }),
               "already"));
}

TEST_P(SubscriptionsTest, OneThatLagsIsStoppedAndBeginsAgain) {
  const Owner owner = own_everything();
  admin().create_subscription("billing", Begin::now);
  const Owner billing = serve("billing");
  write({event({.id = "a"}), event({.id = "b"})});
  finish(owner, ready(owner));
  const std::vector<Row> rows = ready(billing);
  finish(billing, {rows[0]}, Kind::dead);
  advance(2h);
  EXPECT_EQ(admin().stop_lagging_subscriptions(now() - 3h), Ids{});
  EXPECT_EQ(admin().stop_lagging_subscriptions(now() - 1h), Ids{"billing"});

  EXPECT_TRUE(admin().subscriptions()[0].stopped);
  EXPECT_TRUE(contains(admin().subscriptions()[0].why, "was still pending"));
  EXPECT_TRUE(billing.apply(updates_of({rows[1]}, Kind::retry)).fenced);
  EXPECT_TRUE(contains(message_of<PermanentError>([&] { billing->renew(); }), "was stopped"));
  EXPECT_TRUE(contains(
      message_of<PermanentError>([&] { admin().create_subscription("billing", Begin::now); }),
      "was stopped"));
  EXPECT_EQ(of("billing")->counts().dead, 1) << "what is dead stays";
  EXPECT_EQ(admin().purge(Purgeable::done, now() + 1h, 0, 10, false).rows, 1) << "b";

  billing->leave();
  admin().restart_subscription("billing", Begin::now);
  write(event({.id = "c"}));
  EXPECT_EQ(ids(ready(serve("billing"))), Ids{"c"});
  EXPECT_TRUE(contains(
      message_of<MisuseError>([&] { admin().restart_subscription("billing", Begin::now); }),
      "is not stopped"));
}

TEST_P(SubscriptionsTest, NamesAreChecked) {
  for (const std::string name : {"", "a b", "a'b", "x\n"}) {
    EXPECT_TRUE(
        contains(message_of<MisuseError>([&] { admin().create_subscription(name, Begin::now); }),
                 "letters, digits"))
        << name;
  }
  EXPECT_THROW(admin().create_subscription(std::string(101, 'a'), Begin::now), MisuseError);
  EXPECT_TRUE(admin().create_subscription(std::string(100, 'a'), Begin::now));
}

TEST_P(SubscriptionsTest, EachHasItsInstances) {
  admin().create_subscription("billing");
  admin().create_subscription("search", Begin::beginning);
  const Owner billing = serve("billing");
  EXPECT_EQ(of("billing")->admin().members().size(), 1u);
  EXPECT_EQ(of("search")->admin().members().size(), 0u);
}

}  // namespace
}  // namespace outbox::conformance
