#include <gtest/gtest.h>

#include "counted.h"
#include "outbox/memory.h"

namespace outbox::counted {
namespace {

constexpr std::size_t kEvents = 100'000;

TEST(CountedLong, KeepsTheOrderOfTwoProcesses) { keep_order_on_sqlite(kEvents); }
TEST(CountedLong, DeliversEachOnceOnTheMemoryStore) { deliver_each_once(memory::open(), kEvents); }
TEST(CountedLong, DeliversEachOnceOnSqlite) { deliver_each_once(temporary_sqlite(), kEvents); }

}  // namespace
}  // namespace outbox::counted
