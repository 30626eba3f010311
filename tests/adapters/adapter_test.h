// What the tests of all adapters share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "outbox/error.h"
#include "outbox/postgres.h"
#include "outbox/writer.h"
#include "support/postgres.h"

namespace outbox::adapters {

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
    const auto found = store_->find(id);
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

  std::int64_t rows() { return store_->count({}); }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Writer> writer_;
};

// On a schema of its own.
class PostgresAdapterTest : public AdapterTest {
 protected:
  void SetUp() override {
    OUTBOX_NEEDS_POSTGRES();
    schema_ = std::make_unique<test::Schema>();
    use(postgres::open(test::postgres_url(),
                       {.table = schema_->name() + ".outbox_event", .notify = false}));
  }

 private:
  std::unique_ptr<test::Schema> schema_;
};

}  // namespace outbox::adapters
