// The quick version; see counted_long_test.cc.
#include "counted.h"

#include <gtest/gtest.h>

#include "outbox/memory.h"

namespace outbox::counted {
namespace {

constexpr std::size_t kEvents = 5'000;

TEST(Counted, KeepsTheOrderOfTwoProcesses) { keep_order_on_sqlite(kEvents); }
TEST(Counted, DeliversEachOnceOnTheMemoryStore) { deliver_each_once(memory::open(), kEvents); }
TEST(Counted, DeliversEachOnceOnSqlite) { deliver_each_once(temporary_sqlite(), kEvents); }

}  // namespace
}  // namespace outbox::counted
