// What the tests of all adapters share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "outbox/admin/admin.h"
#include "outbox/error.h"
#include "outbox/mysql.h"
#include "outbox/postgres.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "outbox/writer.h"
#include "support/mysql.h"
#include "support/postgres.h"

namespace outbox::adapters {

// A database of a test's own, which is empty.
class Place {
 public:
  virtual ~Place() = default;
  virtual std::shared_ptr<Store> open() = 0;

  // What a client library connects to, besides the server's address: a database, or a file.
  virtual std::string name() const = 0;
};

// Of the kind that `dialect` says.
std::unique_ptr<Place> new_place(Dialect dialect);

// A connection of a client library, with what its user does on it. Used by one thread at a time.
class Owner {
 public:
  virtual ~Owner() = default;
  virtual void begin() = 0;
  virtual void commit() = 0;
  virtual void rollback() = 0;

  // One statement, in the open transaction or outside.
  virtual void run(const std::string& sql) = 0;

  // In a transaction; where sees_transaction() is true also outside.
  virtual std::unique_ptr<Connection> wrap(Store& store) = 0;

  // Whether the adapter can tell if a transaction is open.
  virtual bool sees_transaction() const { return true; }
};

// One client library on one database: what suite.cc is run on.
struct Library {
  Dialect dialect = Dialect::none;
  std::function<std::unique_ptr<Owner>(const Place& place)> connect{};
};

// A store, which is empty, and a writer on it.
class AdapterTest : public ::testing::Test {
 protected:
  void use(std::shared_ptr<Store> store) {
    store_ = std::move(store);
    writer_ = std::make_unique<Writer>(store_);
  }

  static Draft draft(const std::string& id) {
    return {.type = "Happened", .payload = json("{}"), .id = id};
  }

  // An event in which every field is hard on an encoding.
  static Draft odd_draft(const std::string& id, Payload payload) {
    return {.type = "Grüße",
            .aggregate_type = "Straße",
            .aggregate_id = "日本 \\ ' \" {,}",
            .payload = std::move(payload),
            .headers = {{"kéy", "välue \\ \""}},
            .tenant_id = "ñ",
            .id = id,
            .occurred_at = Time{std::chrono::microseconds{1'700'000'000'123'456}}};
  }

  void expect_odd(const std::string& id, const Payload& payload) {
    const auto found = store_->admin().find(id);
    ASSERT_TRUE(found) << id;
    const Event& event = found->row.event;
    const Draft wanted = odd_draft(id, payload);
    EXPECT_EQ(event.type(), wanted.type.str());
    EXPECT_EQ(event.aggregate_type(), wanted.aggregate_type.str());
    EXPECT_EQ(event.aggregate_id(), wanted.aggregate_id);
    EXPECT_EQ(event.tenant_id(), wanted.tenant_id);
    EXPECT_EQ(event.headers(), wanted.headers);
    EXPECT_EQ(event.payload(), payload.data());
    EXPECT_EQ(event.is_json(), payload.kind() == Payload::Kind::json);
    EXPECT_EQ(event.content_type(), payload.content_type());
    EXPECT_EQ(event.occurred_at(), *wanted.occurred_at);
  }

  std::int64_t rows() { return store_->admin().count({}); }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Writer> writer_;
};

// The same in a place of the kind, or skipped where there is no such server.
template <Dialect kind>
class PlacedAdapterTest : public AdapterTest {
 protected:
  void SetUp() override {
    if (kind == Dialect::postgres) OUTBOX_NEEDS_POSTGRES();
    if (kind == Dialect::mysql) OUTBOX_NEEDS_MYSQL();
    place_ = new_place(kind);
    use(place_->open());
  }

  std::unique_ptr<Place> place_;
};
using PostgresAdapterTest = PlacedAdapterTest<Dialect::postgres>;
using MysqlAdapterTest = PlacedAdapterTest<Dialect::mysql>;

// What holds with every client library.
class AdapterSuite : public AdapterTest, public ::testing::WithParamInterface<Library> {
 protected:
  void SetUp() override;

  // What `act` writes, on the owner's connection, is committed.
  void in_transaction(const std::function<void(Connection& mine)>& act);

  Owner& owner() { return *owner_; }

 private:
  std::unique_ptr<Place> place_;

 protected:
  std::unique_ptr<Owner> owner_;
};

}  // namespace outbox::adapters
