// Rules 19 to 22: each update with all its columns, repeats, fences, stale updates.
#include "store_conformance.h"

namespace outbox::conformance {

// Two hundred events of ids with odd characters, twice.
void UpdatingTest::finish_odd_ids() {
  std::vector<Event> events;
  for (int i = 0; i < 200; ++i) {
    const std::string number = std::to_string(i);
    const std::string odd[] = {"\"" + number, number + "\\", "\t" + number,      "日本" + number,
                               number,        "a" + number,  "[" + number + ",", "\x7f" + number};
    events.push_back(event({.id = odd[static_cast<std::size_t>(i) % std::size(odd)]}));
  }
  write(events);
  const Owner owner = own_everything();
  std::vector<StatusUpdate> updates;
  for (const Row& row : ready(owner)) {
    updates.push_back({.row = row.ref, .event_id = row.event.id()});
  }
  EXPECT_EQ(updates.size(), events.size());
  for (int i = 0; i < 2; ++i) {
    apply(owner, updates);
    EXPECT_FALSE(store().has_pending());
  }
}

namespace {

using Kind = StatusUpdate::Kind;
using Stale = std::vector<std::size_t>;

TEST_P(UpdatingTest, DoneFinishesTheEvent) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  advance(5s);
  apply(owner, {update("e", Kind::done)});
  const EventRecord read = record("e");
  EXPECT_EQ(read.row.status, Status::done);
  EXPECT_EQ(read.hold, std::nullopt);
  ASSERT_TRUE(read.done_at);
  const auto ago = capabilities().progress == Progress::row ? 0s : 5s;
  expect_time(read.done_at->time_since_epoch(), now().time_since_epoch() - ago);
  EXPECT_TRUE(ready(owner).empty());
}

TEST_P(UpdatingTest, RetryAloneWaitsForItsTime) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  StatusUpdate candidate = update("e", Kind::crashes);
  candidate.crashes = 2;
  apply(owner, {candidate});
  StatusUpdate retry = update("e", Kind::retry);
  retry.attempts = 3;
  retry.delay = 1500ms;
  retry.error = "connection refused";
  retry.progress = "mail,stock";
  apply(owner, {retry});

  const EventRecord read = record("e");
  EXPECT_EQ(read.row.status, Status::retry);
  EXPECT_EQ(read.row.attempts, 3);
  EXPECT_EQ(read.row.crashes, 0);
  EXPECT_EQ(read.row.progress, "mail,stock");
  EXPECT_EQ(read.last_error, "connection refused");
  EXPECT_EQ(read.done_at, std::nullopt);
  expect_due_in(read, 1500ms);

  EXPECT_TRUE(owner->due(owner.shards(), 10).rows.empty());
  advance(1500ms + backend().clock_error());
  const DueRows due = owner->due(owner.shards(), 10);
  ASSERT_EQ(due.rows.size(), 1u);
  EXPECT_EQ(due.rows[0].attempts, 3);
  EXPECT_EQ(due.rows[0].status, Status::retry);
  EXPECT_EQ(due.rows[0].progress, "mail,stock");
  EXPECT_EQ(due.rows[0].ref.hold, *record("e").hold);
}

TEST_P(UpdatingTest, RetryInALaneHoldsTheLane) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  StatusUpdate retry = update("e", Kind::retry);
  retry.lane = 77;
  retry.attempts = 1;
  retry.delay = 2s;
  retry.error = "no";
  apply(owner, {retry});
  const EventRecord read = record("e");
  EXPECT_EQ(read.row.status, Status::retry);
  EXPECT_EQ(read.hold, 77);
  expect_time(read.row.available_in, 2s);
  advance(1h);
  EXPECT_TRUE(owner->due(owner.shards(), 10).rows.empty()) << "it waits in its lane";
}

TEST_P(UpdatingTest, DeferSpendsNoAttempt) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  StatusUpdate retry = update("e", Kind::retry);
  retry.attempts = 2;
  retry.error = "first";
  apply(owner, {retry});
  StatusUpdate candidate = update("e", Kind::crashes);
  candidate.crashes = 1;
  apply(owner, {candidate});

  StatusUpdate defer = update("e", Kind::defer);
  defer.attempts = 99;
  defer.delay = 4s;
  defer.progress = "mail";
  apply(owner, {defer});
  const EventRecord read = record("e");
  EXPECT_EQ(read.row.status, Status::retry);
  EXPECT_EQ(read.row.attempts, 2);
  EXPECT_EQ(read.row.crashes, 0);
  EXPECT_EQ(read.row.progress, "mail");
  EXPECT_EQ(read.last_error, "first");
  expect_due_in(read, 4s);

  StatusUpdate with_reason = update("e", Kind::defer);
  with_reason.error = "nobody is there";
  apply(owner, {with_reason});
  EXPECT_EQ(record("e").last_error, "nobody is there");
  EXPECT_EQ(record("e").row.attempts, 2);
}

TEST_P(UpdatingTest, DeferLeavesANewEventNew) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  StatusUpdate defer = update("e", Kind::defer);
  defer.lane = 5;
  defer.delay = 4s;
  apply(owner, {defer});
  const EventRecord read = record("e");
  EXPECT_EQ(read.row.status, Status::pending);
  EXPECT_EQ(read.hold, 5);
  expect_time(read.row.available_in, 4s);
}

TEST_P(UpdatingTest, DeadFinishesTheEventAndKeepsTheReason) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  StatusUpdate dead = update("e", Kind::dead);
  dead.attempts = 10;
  dead.error = "gave up";
  dead.progress = "mail";
  apply(owner, {dead});
  const EventRecord read = record("e");
  EXPECT_EQ(read.row.status, Status::dead);
  EXPECT_EQ(read.row.attempts, 10);
  EXPECT_EQ(read.row.progress, "mail");
  EXPECT_EQ(read.last_error, "gave up");
  EXPECT_EQ(read.hold, std::nullopt);
  ASSERT_TRUE(read.done_at) << "by which it is purged";
  expect_time(read.done_at->time_since_epoch(), now().time_since_epoch());
}

TEST_P(UpdatingTest, DeadInALaneStaysFirstInIt) {
  write_aggregate("1", {"a", "b"});
  const Owner owner = own_everything();
  StatusUpdate held = update("b", Kind::hold);
  held.lane = 8;
  StatusUpdate dead = update("a", Kind::dead);
  dead.lane = 8;
  dead.error = "gave up";
  apply(owner, {held, dead});
  EXPECT_EQ(record("a").row.status, Status::dead);
  EXPECT_EQ(record("a").hold, 8);
  EXPECT_EQ(ids(owner->held({ref("a").shard, 8}, 10).rows), (std::vector<std::string>{"a", "b"}));
}

TEST_P(UpdatingTest, HoldChangesNothingButTheLane) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  const EventRecord before = record("e");
  StatusUpdate held = update("e", Kind::hold);
  held.lane = 6;
  held.attempts = 9;
  held.crashes = 9;
  held.error = "not to be stored";
  held.progress = "not to be stored";
  apply(owner, {held});
  EventRecord expected = before;
  expected.hold = 6;
  expect_same(record("e"), expected);
}

TEST_P(UpdatingTest, HoldWithoutALaneWaitsUntilTheEventIsAvailable) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  StatusUpdate retry = update("e", Kind::retry);
  retry.lane = 6;
  retry.delay = 10s;
  apply(owner, {retry});
  advance(4s);
  apply(owner, {update("e", Kind::hold)});
  expect_due_in(record("e"), 6s);
}

TEST_P(UpdatingTest, CrashesChangesOnlyTheCrashes) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  const EventRecord before = record("e");
  StatusUpdate candidate = update("e", Kind::crashes);
  candidate.crashes = 3;
  candidate.attempts = 9;
  candidate.lane = 9;
  candidate.error = "not to be stored";
  candidate.progress = "not to be stored";
  apply(owner, {candidate});
  EventRecord expected = before;
  expected.row.crashes = 3;
  expect_same(record("e"), expected);
  EXPECT_EQ(ready(owner).at(0).crashes, 3);
}

TEST_P(UpdatingTest, RepeatingAnyUpdateDoesNoHarmAndIsNotStale) {
  for (const Kind kind :
       {Kind::done, Kind::retry, Kind::defer, Kind::dead, Kind::hold, Kind::crashes}) {
    const std::string id = "e" + std::to_string(static_cast<int>(kind));
    write(event({.id = id}));
  }
  const Owner owner = own_everything();
  for (const Kind kind :
       {Kind::done, Kind::retry, Kind::defer, Kind::dead, Kind::hold, Kind::crashes}) {
    const std::string id = "e" + std::to_string(static_cast<int>(kind));
    StatusUpdate once = update(id, kind);
    once.lane = kind == Kind::hold ? 4 : kNoLane;
    once.attempts = 2;
    once.crashes = 1;
    once.delay = 1s;
    once.error = "no";
    apply(owner, {once});
    const EventRecord after_one = record(id);
    apply(owner, {once});
    expect_same(record(id), after_one);
  }
}

TEST_P(UpdatingTest, DoneIsNeverLeftByAnUpdate) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  const StatusUpdate done = update("e", Kind::done);
  apply(owner, {done});
  const EventRecord before = record("e");
  advance(1s);
  for (const Kind kind : {Kind::retry, Kind::defer, Kind::dead, Kind::hold, Kind::crashes}) {
    StatusUpdate late = done;
    late.kind = kind;
    late.lane = 3;
    late.attempts = 4;
    late.crashes = 4;
    late.error = "late";
    const UpdateResult result = owner.apply(std::vector{late});
    EXPECT_FALSE(result.fenced);
    EXPECT_EQ(result.stale, Stale{0}) << static_cast<int>(kind);
    expect_same(record("e"), before);
    EXPECT_EQ(record("e").done_at, noted(before.done_at, 1s));
  }
}

TEST_P(UpdatingTest, DeadIsNeverLeftByAnUpdate) {
  write({event({.id = "finished"}), event({.id = "blocking"})});
  const Owner owner = own_everything();
  for (const char* id : {"finished", "blocking"}) {
    StatusUpdate dead = update(id, Kind::dead);
    dead.error = "gave up";
    dead.attempts = 10;
    dead.lane = std::string(id) == "blocking" ? 12 : kNoLane;
    apply(owner, {dead});
    const EventRecord before = record(id);
    advance(1s);
    for (const Kind kind : {Kind::done, Kind::retry, Kind::defer, Kind::hold, Kind::crashes}) {
      StatusUpdate late = update(id, kind);
      late.lane = 3;
      late.attempts = 4;
      late.crashes = 4;
      const UpdateResult result = owner.apply(std::vector{late});
      EXPECT_FALSE(result.fenced);
      EXPECT_EQ(result.stale, Stale{0}) << static_cast<int>(kind);
      expect_same(record(id), before);
      EXPECT_EQ(record(id).done_at, noted(before.done_at, 1s));
    }
  }
}

TEST_P(UpdatingTest, StaleUpdatesAreNamedAndTheOthersAreApplied) {
  write({event({.id = "a"}), event({.id = "b"}), event({.id = "c"}), event({.id = "d"})});
  const Owner owner = own_everything();
  apply(owner, {update("b", Kind::done), update("d", Kind::dead)});
  const UpdateResult result =
      owner.apply(std::vector{update("a", Kind::done), update("b", Kind::dead),
                              update("c", Kind::retry), update("d", Kind::retry)});
  EXPECT_FALSE(result.fenced);
  EXPECT_EQ(result.stale, (Stale{1, 3}));
  EXPECT_EQ(record("a").row.status, Status::done);
  EXPECT_EQ(record("b").row.status, Status::done);
  EXPECT_EQ(record("c").row.status, Status::retry);
  EXPECT_EQ(record("d").row.status, Status::dead);
}

TEST_P(UpdatingTest, AnUpdateOfARowThatIsNotThereIsStale) {
  write(event({.id = "a"}));
  const Owner owner = own_everything();
  StatusUpdate unknown = update("a", Kind::retry);
  unknown.row.seq += 1'000'000;
  unknown.event_id = "nobody";
  const UpdateResult result = owner.apply(std::vector{unknown, update("a", Kind::done)});
  EXPECT_FALSE(result.fenced);
  EXPECT_EQ(result.stale, Stale{0});
  EXPECT_EQ(record("a").row.status, Status::done);
}

// A database that has lost commits gives their numbers out again.
TEST_P(UpdatingTest, AnUpdateWhoseNumberNamesAnotherEventIsStaleAndChangesNothing) {
  write({event({.id = "a"}), event({.id = "b"}), event({.id = "dead"})});
  const Owner owner = own_everything();
  apply(owner, {dead("dead", "no", 4)});
  for (const Kind kind : {Kind::done, Kind::retry, Kind::defer, Kind::dead, Kind::hold,
                          Kind::crashes, Kind::unblock}) {
    const std::string id = kind == Kind::unblock ? "dead" : "a";
    StatusUpdate of_another = update(id, kind);
    of_another.event_id = "lost";
    of_another.lane = kind == Kind::unblock ? kNoLane : 3;
    of_another.attempts = 4;
    of_another.crashes = 4;
    of_another.error = "of another event";
    const EventRecord before = record(id);
    const UpdateResult result = owner.apply(std::vector{of_another});
    EXPECT_FALSE(result.fenced);
    EXPECT_EQ(result.stale, Stale{0}) << static_cast<int>(kind);
    expect_same(record(id), before);
  }
  // In one batch with others, and with the number of an event that is there.
  StatusUpdate mistaken = update("a", Kind::done);
  mistaken.event_id = "b";
  const UpdateResult result = owner.apply(std::vector{update("a", Kind::retry), mistaken});
  EXPECT_EQ(result.stale, Stale{1});
  EXPECT_EQ(record("a").row.status, Status::retry);
  EXPECT_EQ(record("b").row.status, Status::pending);
}

TEST_P(UpdatingTest, DoneRemovesNoOtherEventThatHasItsNumber) {
  OUTBOX_NEEDS(backend().removes_done());
  open({.remove_done = true});
  write(event({.id = "a"}));
  const Owner owner = own_everything();
  StatusUpdate of_another = update("a", Kind::done);
  of_another.event_id = "lost";
  EXPECT_FALSE(owner.apply(std::vector{of_another}).fenced);
  EXPECT_EQ(record("a").row.status, Status::pending);
}

TEST_P(UpdatingTest, OfManyOnlyThoseWhoseNumberNamesAnotherEventAreStale) {
  std::vector<Event> events;
  for (int i = 0; i < 100; ++i) events.push_back(event({.id = "e" + std::to_string(i)}));
  write(events);
  const Owner owner = own_everything();
  std::vector<StatusUpdate> updates;
  for (const Event& each : events) updates.push_back(update(each.id(), Kind::done));
  updates[42].event_id = "lost";
  for (int i = 0; i < 2; ++i) {
    const UpdateResult result = owner.apply(updates);
    EXPECT_FALSE(result.fenced);
    EXPECT_EQ(result.stale, Stale{42}) << "also when it is repeated";
  }
  EXPECT_EQ(record("e42").row.status, Status::pending);
  EXPECT_EQ(record("e41").row.status, Status::done);
  EXPECT_EQ(store().counts().pending, 1);
}

TEST_P(UpdatingTest, OfManyThatAreRemovedTheOtherEventStays) {
  OUTBOX_NEEDS(backend().removes_done());
  open({.remove_done = true});
  write({event({.id = "a"}), event({.id = "b"}), event({.id = "c"})});
  const Owner owner = own_everything();
  std::vector updates{update("a", Kind::done), update("b", Kind::done), update("c", Kind::done)};
  updates[1].event_id = "lost";
  EXPECT_FALSE(owner.apply(updates).fenced);
  EXPECT_TRUE(store().admin().find("b")) << "an event that nobody has delivered is gone";
  EXPECT_FALSE(store().admin().find("a"));
  EXPECT_FALSE(store().admin().find("c"));
}

TEST_P(UpdatingTest, AnyIdCanBeUpdatedInAnyCompany) { finish_odd_ids(); }

TEST_P(UpdatingTest, AnyIdCanBeRemovedInAnyCompany) {
  OUTBOX_NEEDS(backend().removes_done());
  open({.remove_done = true});
  finish_odd_ids();
}

TEST_P(UpdatingTest, AClaimersUpdateWhoseNumberNamesAnotherEventIsStale) {
  OUTBOX_NEEDS(capabilities().row_claims);
  write(event({.id = "a"}));
  const auto claimer = store().join({.row_claims = true});
  const Lease lease = claimer->renew();
  const Rows claimed = claimer->claim(0ms, 10);
  ASSERT_EQ(claimed.rows.size(), 1u);
  for (const Kind kind : {Kind::done, Kind::retry, Kind::dead}) {
    const StatusUpdate of_another{.row = claimed.rows[0].ref, .event_id = "lost", .kind = kind};
    EXPECT_EQ(claimer->apply(lease.epoch, {&of_another, 1}).stale, Stale{0});
    EXPECT_EQ(record("a").row.status, Status::pending);
  }
}

TEST_P(UpdatingTest, AnUpdateIsAppliedAlsoWhenTheRowHasMovedSinceItWasRead) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  const StatusUpdate done = update("e", Kind::done);  // with hold 0
  StatusUpdate held = update("e", Kind::hold);
  held.lane = 4;
  apply(owner, {held});
  apply(owner, {done});
  EXPECT_EQ(record("e").row.status, Status::done);
  EXPECT_EQ(record("e").hold, std::nullopt);
  EXPECT_TRUE(owner->held_lanes(done.row.shard, 0, 10).empty());
}

TEST_P(UpdatingTest, NoUpdatesAreFine) {
  const Owner owner = own_everything();
  apply(owner, {});
}

TEST_P(UpdatingTest, HundredsOfUpdatesOfAllKindsAreAppliedTogether) {
  std::vector<Event> events;
  for (int i = 0; i < 1'200; ++i) events.push_back(event({.id = "e" + std::to_string(i)}));
  write(events);
  const Owner owner = own_everything();
  std::vector<StatusUpdate> updates;
  for (const Row& row : ready(owner)) {
    const auto kind = static_cast<Kind>(updates.size() % 6);
    updates.push_back({.row = row.ref,
                       .event_id = row.event.id(),
                       .kind = kind,
                       .lane = kind == Kind::hold ? 1 : kNoLane,
                       .attempts = static_cast<int>(updates.size()),
                       .crashes = 1,
                       .delay = 1s,
                       .error = "error " + std::to_string(updates.size())});
  }
  ASSERT_EQ(updates.size(), 1'200u);
  apply(owner, updates);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const EventRecord read = record(updates[i].event_id);
    switch (updates[i].kind) {
      case Kind::done:
        EXPECT_EQ(read.row.status, Status::done);
        break;
      case Kind::retry:
        EXPECT_EQ(read.row.status, Status::retry);
        EXPECT_EQ(read.row.attempts, updates[i].attempts);
        EXPECT_EQ(read.last_error, updates[i].error);
        break;
      case Kind::defer:
        EXPECT_EQ(read.row.status, Status::pending);
        EXPECT_LT(read.hold.value_or(0), 0);
        break;
      case Kind::dead:
        EXPECT_EQ(read.row.status, Status::dead);
        EXPECT_EQ(read.last_error, updates[i].error);
        break;
      case Kind::hold:
        EXPECT_EQ(read.hold, 1);
        break;
      case Kind::crashes:
        EXPECT_EQ(read.row.crashes, 1);
        break;
      case Kind::unblock:
        FAIL() << "only for DEAD rows";
    }
  }
}

TEST_P(UpdatingTest, AnErrorOfAnyContentIsStoredAsItIs) {
  std::string longest;
  while (longest.size() < 4 * 4'000u) longest += "\xF0\x9F\x9A\x80";
  const std::vector<std::string> errors{"",
                                        "it's \"quoted\"",
                                        "'); DROP TABLE outbox_event; --",
                                        "100 % of {} ? :name $1 \\x00",
                                        "line\nline\r\n\ttab",
                                        "\x01\x02\x7f",
                                        "\xC3\xA4\xE2\x82\xAC",
                                        longest};
  const Owner owner = own_everything();
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const std::string id = "e" + std::to_string(i);
    write(event({.id = id}));
    StatusUpdate retry = update(id, Kind::retry);
    retry.error = errors[i];
    apply(owner, {retry});
    EXPECT_EQ(record(id).last_error, errors[i]);
    StatusUpdate dead = update(id, Kind::dead);
    dead.error = errors[i] + "!";
    apply(owner, {dead});
    EXPECT_EQ(record(id).last_error, errors[i] + "!");
  }
}

TEST_P(UpdatingTest, DoneRemovesTheRowIfTheStoreIsToldSo) {
  OUTBOX_NEEDS(backend().removes_done());
  open({.remove_done = true});
  write({event({.id = "a"}), event({.id = "b"})});
  const Owner owner = own_everything();
  const StatusUpdate done = update("a", Kind::done);
  apply(owner, {done, update("b", Kind::dead)});
  EXPECT_FALSE(store().admin().find("a"));
  EXPECT_EQ(record("b").row.status, Status::dead) << "only what is done goes";
  apply(owner, {done});  // a repeat finds its work done
  EXPECT_FALSE(store().has_pending());
}

TEST_P(UpdatingTest, AnInstanceThatNeverJoinedIsFenced) {
  write(event({.id = "e"}));
  const auto stranger = store().join({});
  const UpdateResult result = stranger->apply(0, std::vector{update("e", Kind::done)});
  EXPECT_TRUE(result.fenced);
  EXPECT_EQ(record("e").row.status, Status::pending);
}

TEST_P(UpdatingTest, AnInstanceThatLeftIsFenced) {
  write(event({.id = "e"}));
  const Owner owner = own_everything();
  owner->leave();
  const EventRecord before = record("e");
  for (const Kind kind : {Kind::done, Kind::retry, Kind::dead, Kind::hold, Kind::crashes}) {
    StatusUpdate late = update("e", kind);
    late.crashes = 5;
    late.lane = 5;
    EXPECT_TRUE(owner.apply(std::vector{late}).fenced);
    expect_same(record("e"), before);
    EXPECT_EQ(record("e").done_at, noted(before.done_at, 1s));
  }
}

TEST_P(UpdatingTest, AnInstanceThatWasDeclaredDeadIsFenced) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  write(event({.id = "e"}));
  const Owner zombie = own_everything({.name = "zombie", .lease = 15s});
  advance(16s);
  const Owner heir = own_everything({.name = "heir", .lease = 15s});
  const EventRecord before = record("e");
  for (const Kind kind :
       {Kind::done, Kind::retry, Kind::defer, Kind::dead, Kind::hold, Kind::crashes}) {
    StatusUpdate late = update("e", kind);
    late.crashes = 5;
    late.lane = 5;
    const UpdateResult result = zombie.apply(std::vector{late});
    EXPECT_TRUE(result.fenced) << static_cast<int>(kind);
    expect_same(record("e"), before);
    EXPECT_EQ(record("e").done_at, noted(before.done_at, 1s));
  }
  apply(heir, {update("e", Kind::done)});
}

TEST_P(UpdatingTest, UpdatesGoByTheEpochNotByTheTime) {
  OUTBOX_NEEDS(capabilities().expiring_leases);
  write(event({.id = "e"}));
  const Owner owner = own_everything({.lease = 15s});
  advance(1h);
  apply(owner, {update("e", Kind::done)});  // nobody took over
  EXPECT_EQ(record("e").row.status, Status::done);
}

}  // namespace
}  // namespace outbox::conformance
