#include "cli/demo/verdict.h"

#include <gtest/gtest.h>

#include <utility>

namespace outbox::demo {
namespace {

harness::Committed order(const std::string& id, const std::string& customer, int number) {
  return {.id = id, .aggregate = customer, .number = number};
}

harness::Message receipt(const std::string& id, const std::string& customer, int number) {
  return {.id = id, .aggregate = customer, .number = number};
}

RunRecord all_is_well() {
  return {.orders = {order("1", "ann", 1), order("2", "bob", 1), order("4", "ann", 2)},
          .rolled_back = 1,
          .receipts = {receipt("2", "bob", 1), receipt("1", "ann", 1), receipt("4", "ann", 2)}};
}

TEST(Verdict, IsGoodWhenEverythingArrivedOnce) {
  const Verdict verdict = judge(all_is_well());
  EXPECT_TRUE(verdict.good());
  EXPECT_EQ(verdict.events.committed, 3u);
  EXPECT_EQ(verdict.rolled_back, 1u);
  EXPECT_EQ(verdict.events.delivered, 3u);
  EXPECT_EQ(verdict.events.duplicates, 0u);
}

TEST(Verdict, FindsWhatWasLost) {
  RunRecord record = all_is_well();
  record.receipts.pop_back();
  const Verdict verdict = judge(record);
  EXPECT_EQ(verdict.events.lost, 1u);
  EXPECT_FALSE(verdict.good());
}

TEST(Verdict, TellsWhatIsPendingFromWhatIsLost) {
  RunRecord record = all_is_well();
  record.receipts.pop_back();
  record.pending = {"4"};
  const Verdict verdict = judge(record);
  EXPECT_EQ(verdict.events.lost, 0u);
  EXPECT_EQ(verdict.events.pending, 1u);
  EXPECT_FALSE(verdict.good());
  EXPECT_NE(to_text(verdict, false).find("1 event still waited"), std::string::npos);
}

TEST(Verdict, FindsARolledBackOrderThatWasDelivered) {
  RunRecord record = all_is_well();
  record.receipts.push_back(receipt("3", "bob", 2));
  const Verdict verdict = judge(record);
  EXPECT_EQ(verdict.events.ghosts, 1u);
  EXPECT_FALSE(verdict.good());
}

TEST(Verdict, FindsADeliveryThatNobodyRemembers) {
  RunRecord record = all_is_well();
  record.receipts.push_back(receipt("99", "bob", 2));
  EXPECT_EQ(judge(record).events.ghosts, 1u);
}

TEST(Verdict, FindsAnOrderThatOvertookAnother) {
  RunRecord record = all_is_well();
  std::swap(record.receipts[1], record.receipts[2]);
  const Verdict verdict = judge(record);
  EXPECT_EQ(verdict.events.order_breaks, 1u);
  EXPECT_FALSE(verdict.good());
}

TEST(Verdict, FindsAnEventThatArrivedAsSomethingElse) {
  RunRecord record = all_is_well();
  record.receipts.back().number = 3;
  const Verdict verdict = judge(record);
  EXPECT_FALSE(verdict.good());
  EXPECT_NE(to_text(verdict, false).find("1 event arrived as something else"), std::string::npos);
}

TEST(Verdict, TakesARepeatForADuplicateAndNotForABreakOfTheOrder) {
  RunRecord record = all_is_well();
  record.receipts.push_back(receipt("1", "ann", 1));
  record.kills = 1;
  const Verdict verdict = judge(record);
  EXPECT_EQ(verdict.events.duplicates, 1u);
  EXPECT_EQ(verdict.events.order_breaks, 0u);
  EXPECT_TRUE(verdict.good());
  EXPECT_NE(to_text(verdict, false).find("1 duplicate after 1 kill: at-least-once"),
            std::string::npos);
}

TEST(Verdict, AcceptsNoDuplicateWithoutAKill) {
  RunRecord record = all_is_well();
  record.receipts.push_back(receipt("1", "ann", 1));
  EXPECT_FALSE(judge(record).good());
}

TEST(Verdict, IsBadWhenAProcessDiedThatNobodyKilled) {
  RunRecord record = all_is_well();
  record.unexpected_exits = {"the writer was killed (signal 11)"};
  const Verdict verdict = judge(record);
  EXPECT_FALSE(verdict.good());
  EXPECT_NE(to_text(verdict, false)
                .find("1 process death by accident, the first: the writer was killed (signal 11)."),
            std::string::npos);
}

TEST(Verdict, IsATable) {
  EXPECT_EQ(to_text(judge(all_is_well()), false),
            "  committed             3       orders, each with its event in one transaction\n"
            "  rolled back           1       on purpose; nobody may hear of these\n"
            "  delivered             3       different events that the receiver wrote down\n"
            "  duplicates            0       events that it was sent once more\n"
            "  lost                  0  ok   committed, never delivered\n"
            "  ghosts                0  ok   delivered, never committed\n"
            "  order breaks          0  ok   overtook an older order of the same customer\n"
            "\n"
            "No duplicates: without a fault every event is delivered once.\n"
            "Nothing lost, no ghosts, every customer's orders in order.\n");
}

TEST(Verdict, HasColorOnlyWhereItIsWanted) {
  const Verdict verdict = judge(all_is_well());
  EXPECT_EQ(to_text(verdict, false).find('\x1b'), std::string::npos);
  EXPECT_NE(to_text(verdict, true).find("\x1b[32mok "), std::string::npos);
}

}  // namespace
}  // namespace outbox::demo
