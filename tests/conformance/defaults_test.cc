// The documented default of every option: sections 9.1, 12.3 and 14 of the specification.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "outbox/consumer/consumption.h"
#include "outbox/consumer/idempotent_create.h"
#include "outbox/consumer/inbox.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#ifdef OUTBOX_WITH_SQLITE
#include "outbox/sqlite.h"
#endif
#ifdef OUTBOX_WITH_POSTGRES
#include "outbox/postgres.h"
#endif
#ifdef OUTBOX_WITH_MYSQL
#include "outbox/mysql.h"
#endif

namespace outbox {
namespace {

using namespace std::chrono_literals;

TEST(Defaults, AreThoseOfTheSpecification) {
  const Options options;
  EXPECT_EQ(options.mode, Mode::single_node);
  EXPECT_EQ(options.workers, 4);
  EXPECT_EQ(options.ordering, Ordering::per_aggregate);
  EXPECT_EQ(options.dead.then, OnDead::skip);
  EXPECT_EQ(options.on_unroutable, std::nullopt);  // which is OnUnroutable::dead
  EXPECT_EQ(options.queue.hot_capacity, 1'000u);
  EXPECT_EQ(options.queue.cold_capacity, 1'000u);
  EXPECT_EQ(options.queue.capacity_bytes, 64u * 1024 * 1024);
  EXPECT_EQ(options.queue.batch, 50u);
  EXPECT_EQ(options.poll_interval, 5s);
  EXPECT_FALSE(options.row_claims);
  EXPECT_EQ(options.lease.claim, 5min);
  EXPECT_EQ(options.skip_recent, 0s);
  EXPECT_EQ(options.lease.duration, 15s);
  EXPECT_EQ(options.retry.policy, nullptr) << "which means ExponentialBackoff{}";
  EXPECT_EQ(options.retry.max_attempts, 10);
  EXPECT_TRUE(options.interceptors.empty());
  EXPECT_TRUE(options.hooks.empty());
  EXPECT_FALSE(options.dead.on_event);
  EXPECT_FALSE(options.dead.letter);
  EXPECT_FALSE(options.purge);
  EXPECT_FALSE(options.replay_dead);
  EXPECT_EQ(options.timeouts.drain, 5s);
  EXPECT_EQ(options.timeouts.hung, 30s);
  EXPECT_EQ(options.timeouts.stalled, 1min);
  EXPECT_EQ(options.breaker.pause, 200ms);
  EXPECT_EQ(options.breaker.max_pause, 30s);
  EXPECT_EQ(options.max_solo_crashes, 2);
  EXPECT_EQ(options.name, "");
  EXPECT_FALSE(options.log) << "which means standard_error_log()";
  EXPECT_EQ(options.metrics, nullptr);
}

TEST(Defaults, OfTheDispatcherAloneAreTheSame) {
  const DispatcherOptions options;
  const Options facade;
  EXPECT_EQ(options.workers, facade.workers);
  EXPECT_EQ(options.queue.hot_capacity, facade.queue.hot_capacity);
  EXPECT_EQ(options.queue.cold_capacity, facade.queue.cold_capacity);
  EXPECT_EQ(options.queue.capacity_bytes, facade.queue.capacity_bytes);
  EXPECT_EQ(options.ordering, facade.ordering);
  EXPECT_EQ(options.dead.then, facade.dead.then);
  EXPECT_EQ(options.on_unroutable, OnUnroutable::dead);
  EXPECT_EQ(facade.on_unroutable, std::nullopt);
  EXPECT_EQ(options.retry.policy, facade.retry.policy);
  EXPECT_EQ(options.retry.max_attempts, facade.retry.max_attempts);
  EXPECT_EQ(options.timeouts.drain, facade.timeouts.drain);
  EXPECT_EQ(options.timeouts.hung, facade.timeouts.hung);
  EXPECT_EQ(options.timeouts.stalled, facade.timeouts.stalled);
  EXPECT_EQ(options.breaker.pause, facade.breaker.pause);
  EXPECT_EQ(options.breaker.max_pause, facade.breaker.max_pause);
  EXPECT_EQ(options.tracker, nullptr);
  EXPECT_EQ(options.metrics, nullptr);
  EXPECT_EQ(options.clock, nullptr);
}

TEST(Defaults, OfThePollerAloneAreTheSame) {
  const PollerOptions options;
  const Options facade;
  EXPECT_EQ(options.batch, facade.queue.batch);
  EXPECT_EQ(options.interval, facade.poll_interval);
  EXPECT_EQ(options.skip_recent, facade.skip_recent);
  EXPECT_EQ(options.row_claims, facade.row_claims);
  EXPECT_EQ(options.max_solo_crashes, facade.max_solo_crashes);
  EXPECT_EQ(options.stalled_after, facade.timeouts.stalled);
  EXPECT_EQ(options.clock, nullptr);
}

TEST(Defaults, OfRetriesListenersAndInstances) {
  const ExponentialBackoffOptions backoff;
  EXPECT_EQ(backoff.base, 200ms);
  EXPECT_EQ(backoff.max, 1min);
  const ListenerOptions listener;
  EXPECT_EQ(listener.retry, nullptr) << "the dispatcher's";
  EXPECT_EQ(listener.max_attempts, std::nullopt);
  EXPECT_EQ(listener.ordering, Ordering::per_aggregate);
  EXPECT_EQ(listener.max_batch, 100u);
  const InstanceOptions instance;
  EXPECT_EQ(instance.capacity, 1'000u);
  EXPECT_EQ(instance.lease, Options{}.lease.duration);
  EXPECT_EQ(instance.lock_timeout, Options{}.lease.claim);
  EXPECT_FALSE(instance.exclusive);
  EXPECT_FALSE(instance.row_claims);
  const Draft draft;
  EXPECT_EQ(draft.aggregate_type, Name(kGlobalAggregate));
  EXPECT_EQ(draft.aggregate_id, "");
  EXPECT_EQ(json("{}").content_type(), "application/json");
  EXPECT_EQ(bytes("").content_type(), "application/octet-stream");
}

TEST(Defaults, OfWhatOperatorsDo) {
  const BulkOptions bulk;
  EXPECT_EQ(bulk.batch, 100u);
  EXPECT_EQ(bulk.rate, 0);
  EXPECT_EQ(bulk.limit, 0);
  const ReplaySchedule schedule;
  EXPECT_EQ(schedule.interval, 1h);
  EXPECT_EQ(schedule.min_age, 10min);
  const PurgeOptions purge;
  EXPECT_EQ(purge.done_retention, 7 * 24h);
  EXPECT_EQ(purge.dead_retention, 30 * 24h);
  EXPECT_EQ(purge.age, std::nullopt);
  EXPECT_FALSE(purge.archive);
  EXPECT_EQ(purge.batch, 500u);
  EXPECT_EQ(purge.pause, 0s);
  EXPECT_EQ(purge.interval, 1h);
}

// Each header says its own, where it is looked for; here they are compared.
TEST(Defaults, OfPurgesAreTheSame) {
  const PurgeOptions purge;
  const InboxOptions inbox;
  EXPECT_EQ(inbox.purge_batch, purge.batch);
  EXPECT_EQ(inbox.purge_interval, purge.interval);
  const DatabaseTrackerOptions tracker;
  EXPECT_EQ(tracker.purge_batch, purge.batch);
  EXPECT_EQ(tracker.purge_interval, purge.interval);
  const CreateOptions create;
  EXPECT_EQ(create.purge_batch, purge.batch);
  EXPECT_EQ(create.purge_interval, purge.interval);
}

// What all stores have.
template <class StoreOptions>
void expect_store_defaults() {
  const StoreOptions options;
  EXPECT_EQ(options.table, "outbox_event");
  EXPECT_EQ(options.on_done, decltype(options.on_done)::keep);
  EXPECT_EQ(options.connections, 8u);
  EXPECT_EQ(options.wait_timeout, 5s);
  EXPECT_TRUE(options.migrate);
  EXPECT_FALSE(options.on_open);
  EXPECT_EQ(options.codec, nullptr) << "which means default_json_codec()";
  EXPECT_EQ(options.clock, nullptr) << "which means host_clock()";
}

TEST(Defaults, OfStores) {
  const memory::Options memory;
  EXPECT_EQ(memory.on_done, memory::OnDone::keep);
  EXPECT_EQ(memory.shards, 16);
  EXPECT_FALSE(memory.concurrent_transactions);
  EXPECT_EQ(memory.connections, 8u);
  EXPECT_EQ(memory.wait_timeout, 5s);
#ifdef OUTBOX_WITH_SQLITE
  expect_store_defaults<sqlite::Options>();
  EXPECT_EQ(sqlite::Options{}.durability, sqlite::Durability::full);
#endif
#ifdef OUTBOX_WITH_POSTGRES
  expect_store_defaults<postgres::Options>();
  EXPECT_EQ(postgres::Options{}.statement_timeout, 30s);
  EXPECT_TRUE(postgres::Options{}.prepare);
  EXPECT_FALSE(postgres::Options{}.insert_at_commit);
  EXPECT_TRUE(postgres::Options{}.notify);
#endif
#ifdef OUTBOX_WITH_MYSQL
  expect_store_defaults<mysql::Options>();
  EXPECT_EQ(mysql::Options{}.statement_timeout, 30s);
  EXPECT_TRUE(mysql::Options{}.prepare);
#endif
}

}  // namespace
}  // namespace outbox
