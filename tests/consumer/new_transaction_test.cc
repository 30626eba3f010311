// Writer::begin_new() beside an open transaction.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "database.h"
#include "outbox/error.h"
#include "outbox/writer.h"
#include "support/stores.h"

namespace outbox::patterns {
namespace {

Draft draft() { return {.type = "Happened", .payload = json("1")}; }

TEST(NewTransactionOnSqliteTest, ItIsRefusedAtOnceAndTheOpenOneGoesOn) {
  const auto database = chaos::kSqlite.make();
  const auto store = database->open();
  Writer writer{store};
  auto outer = writer.begin();
  const std::string id = writer.write(draft());
  const std::string message =
      test::message_of<MisuseError>([&] { static_cast<void>(writer.begin_new()); });
  EXPECT_TRUE(test::contains(message, "one writer at a time"));
  outer.commit();
  EXPECT_TRUE(store->admin().find(id));
}

// On servers, where transactions need not wait for each other.
class NewTransactionTest : public PatternTest {
 protected:
  bool found(const std::string& id) { return store()->admin().find(id).has_value(); }
};

OUTBOX_ON_EVERY_SERVER(NewTransactionTest);

TEST_P(NewTransactionTest, ItIsTheThreadsOpenOneUntilItEnds) {
  Writer writer{store()};
  auto outer = writer.begin();
  const std::string first = writer.write(draft());
  auto inner = writer.begin_new();
  const std::string second = writer.write(draft());
  const std::string third = outer.write(draft());
  EXPECT_THROW(static_cast<void>(writer.begin()), MisuseError);
  inner.commit();
  EXPECT_TRUE(found(second));
  EXPECT_FALSE(found(first));
  EXPECT_TRUE(writer.in_transaction());

  std::string undone;
  {
    auto forgotten = writer.begin_new();
    undone = writer.write(draft());
  }
  const std::string fourth = writer.write(draft());
  outer.commit();
  EXPECT_FALSE(writer.in_transaction());
  for (const std::string& id : {first, third, fourth}) EXPECT_TRUE(found(id));
  EXPECT_FALSE(found(undone));
}

TEST_P(NewTransactionTest, TheOuterOneMayEndFirst) {
  Writer writer{store()};
  auto outer = writer.begin();
  auto inner = writer.begin_new();
  outer.rollback();
  const std::string id = writer.write(draft());
  inner.commit();
  EXPECT_TRUE(found(id));
  EXPECT_FALSE(writer.in_transaction());
}

}  // namespace
}  // namespace outbox::patterns
