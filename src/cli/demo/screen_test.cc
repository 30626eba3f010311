#include "cli/demo/screen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace outbox::demo {
namespace {

using namespace std::chrono_literals;
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
          .log = {{70s, "dispatcher: first"}, {71s, "dispatcher: second"}},
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

}  // namespace
}  // namespace outbox::demo
