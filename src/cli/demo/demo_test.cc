#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "cli/demo/screen.h"
#include "cli/demo/shop.h"
#include "cli/demo/supervisor.h"

namespace outbox::demo {
namespace {

using namespace std::chrono_literals;
using Kind = Report::Kind;

TEST(Report, ComesOutAsItWentIn) {
  for (const Report& report :
       {Report{.kind = Kind::ready}, Report{.kind = Kind::committed, .id = "a", .at = Moment{12us}},
        Report{.kind = Kind::rolled_back, .id = "b"},
        Report{.kind = Kind::received, .id = "c", .at = Moment{13us}},
        Report{.kind = Kind::duplicate, .id = "c", .at = Moment{14us}},
        Report{.kind = Kind::log, .text = "some words"}}) {
    EXPECT_EQ(Report::parse(report.line()), report) << report.line();
  }
}

TEST(Report, TakesForeignLinesForTheLog) {
  for (const char* line : {"", "terminate called", "@committed a b", "@received"}) {
    EXPECT_EQ(Report::parse(line), (Report{.kind = Kind::log, .text = line}));
  }
}

const Moment kNow{1h};

TEST(Stats, CountsAndMeasuresFromCommitToReceipt) {
  Stats stats;
  stats.add({.kind = Kind::committed, .id = "a", .at = kNow});
  stats.add({.kind = Kind::committed, .id = "b", .at = kNow});
  stats.add({.kind = Kind::rolled_back, .id = "c"});
  stats.add({.kind = Kind::received, .id = "a", .at = kNow + 700us});
  const Figures figures = stats.figures(kNow + 1ms);
  EXPECT_EQ(figures.committed, 2);
  EXPECT_EQ(figures.rolled_back, 1);
  EXPECT_EQ(figures.delivered, 1);
  EXPECT_EQ(figures.pending, 1);
  EXPECT_EQ(figures.commit_rate, 2);
  EXPECT_EQ(figures.delivery_rate, 1);
  EXPECT_EQ(figures.p50, 700us);
}

TEST(Stats, TakesAReceiptThatIsReportedBeforeItsCommit) {
  Stats stats;
  stats.add({.kind = Kind::received, .id = "a", .at = kNow});
  EXPECT_EQ(stats.figures(kNow).delivered, 0);
  stats.add({.kind = Kind::committed, .id = "a", .at = kNow + 5us});
  const Figures figures = stats.figures(kNow);
  EXPECT_EQ(figures.delivered, 1);
  EXPECT_EQ(figures.pending, 0);
  EXPECT_EQ(figures.p50, 0us);
}

TEST(Stats, KnowsADeliveryWhoseFirstReportDiedWithTheReceiver) {
  Stats stats;
  stats.add({.kind = Kind::committed, .id = "a", .at = kNow});
  stats.add({.kind = Kind::duplicate, .id = "a", .at = kNow + 1s});
  EXPECT_EQ(stats.figures(kNow).delivered, 1);
  EXPECT_EQ(stats.figures(kNow).duplicates, 1);
  stats.add({.kind = Kind::duplicate, .id = "a", .at = kNow + 2s});
  EXPECT_EQ(stats.figures(kNow).delivered, 1);
  EXPECT_EQ(stats.figures(kNow).duplicates, 2);
}

TEST(Stats, ForgetsOldRatesAndLatencies) {
  Stats stats;
  stats.add({.kind = Kind::committed, .id = "a", .at = kNow});
  stats.add({.kind = Kind::received, .id = "a", .at = kNow});
  const Figures figures = stats.figures(kNow + 10s);
  EXPECT_EQ(figures.commit_rate, 0);
  EXPECT_EQ(figures.delivery_rate, 0);
  EXPECT_EQ(figures.p50, std::nullopt);
  EXPECT_EQ(figures.delivered, 1);
}

using State = RoleStatus::State;

View busy_view() {
  return {.running = 75s,
          .roles = {RoleStatus{.state = State::up, .pid = 101},
                    RoleStatus{.state = State::up, .pid = 102, .restarts = 1},
                    RoleStatus{.state = State::up, .pid = 103}},
          .figures = {.committed = 12'345,
                      .rolled_back = 1'371,
                      .delivered = 12'300,
                      .duplicates = 2,
                      .pending = 45,
                      .commit_rate = 180,
                      .delivery_rate = 179,
                      .p50 = 640us,
                      .p99 = 12ms},
          .log = {{Moment{70s}, "dispatcher: first"}, {Moment{71s}, "dispatcher: second"}},
          .database = "/tmp/shop.db",
          .seed = 7};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool shows(const std::string& screen, const std::string& text) {
  return screen.find(text) != std::string::npos;
}

TEST(Screen, ShowsFiguresProcessesAndKeys) {
  const std::string screen = render(busy_view(), {.columns = 100, .rows = 30}, false);
  EXPECT_TRUE(shows(screen, "1:15"));
  EXPECT_TRUE(shows(screen, " dispatcher       102  up"));
  EXPECT_TRUE(shows(screen, "back 1 time"));
  EXPECT_TRUE(shows(screen, " committed       12,345      180 a second"));
  EXPECT_TRUE(shows(screen, " pending             45   ###\n"));
  EXPECT_TRUE(shows(screen, "p50 640 us   p99 12 ms"));
  EXPECT_TRUE(shows(screen, "b break the receiver"));
  EXPECT_TRUE(shows(screen, " 1:10 dispatcher: first\n 1:11 dispatcher: second\n"));
  EXPECT_TRUE(shows(screen, "seed 7"));
}

TEST(Screen, OffersToHealWhatIsBroken) {
  View view = busy_view();
  view.roles.at(2) = {.state = State::broken};
  const std::string screen = render(view, {.columns = 100, .rows = 30}, false);
  EXPECT_TRUE(shows(screen, " receiver           -  broken"));
  EXPECT_TRUE(shows(screen, "b heal the receiver"));
}

TEST(Screen, FitsEverySize) {
  for (std::size_t columns : {1u, 20u, 40u, 71u, 72u, 80u, 200u}) {
    for (std::size_t rows : {1u, 5u, 15u, 21u, 22u, 24u, 50u}) {
      const auto lines = lines_of(render(busy_view(), {columns, rows}, false));
      EXPECT_LE(lines.size(), rows);
      for (const std::string& line : lines) EXPECT_LE(line.size(), columns) << line;
    }
  }
}

TEST(Screen, KeepsTheKeysOnASmallOne) {
  const std::string screen = render(busy_view(), {.columns = 40, .rows = 14}, false);
  EXPECT_TRUE(shows(screen, "b break   k kill -9   q quit"));
  EXPECT_TRUE(shows(screen, "dispatcher: second"));
  EXPECT_FALSE(shows(screen, "dispatcher: first"));
}

TEST(Screen, HasColorOnlyWhereItIsWantedAndCutsTheSameWay) {
  const ScreenSize size{.columns = 30, .rows = 30};
  const std::string plain = render(busy_view(), size, false);
  std::string colored = render(busy_view(), size, true);
  EXPECT_FALSE(shows(plain, "\x1b"));
  EXPECT_TRUE(shows(colored, "\x1b[32mup"));
  for (auto at = colored.find('\x1b'); at != std::string::npos; at = colored.find('\x1b')) {
    colored.erase(at, colored.find('m', at) - at + 1);
  }
  EXPECT_EQ(colored, plain);
}

TEST(ProgressLine, HoldsTheFigures) {
  EXPECT_EQ(progress_line(3s, busy_view().figures),
            "   3 s  committed  12,345  rolled back 1,371  delivered  12,300  pending    45  "
            "p50 640 us  p99  12 ms");
}

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
  EXPECT_NE(to_text(verdict, false).find("1 event arrived with other contents"), std::string::npos);
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
  EXPECT_NE(
      to_text(verdict, false)
          .find(
              "1 process death that nobody ordered, the first: the writer was killed (signal 11)."),
      std::string::npos);
}

TEST(Verdict, IsATable) {
  EXPECT_EQ(to_text(judge(all_is_well()), false),
            "  committed             3       orders, each with its event in one transaction\n"
            "  rolled back           1       on purpose; must never be delivered\n"
            "  delivered             3       distinct events in the receiver's ledger\n"
            "  duplicates            0       repeated deliveries\n"
            "  lost                  0  ok   committed, but never delivered\n"
            "  ghosts                0  ok   delivered, but never committed\n"
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
