#include "cli/demo/ledger.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "outbox/error.h"

namespace outbox::demo {
namespace {

using Lines = std::vector<std::string>;

class LedgerTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  const std::string path_ = ::testing::TempDir() + "ledger_" +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(LedgerTest, KeepsLinesOverAReopening) {
  {
    Ledger ledger(path_);
    ledger.append("one");
    ledger.sync();
  }
  Ledger ledger(path_);
  ledger.append("two");
  ledger.append("three");
  ledger.sync();
  EXPECT_EQ(read_ledger(path_), (Lines{"one", "two", "three"}));
}

TEST_F(LedgerTest, CutsOffWhatAKilledWriterLeftUnfinished) {
  std::ofstream(path_) << "one\ntw";
  EXPECT_EQ(read_ledger(path_), Lines{"one"});
  Ledger ledger(path_);
  ledger.append("two");
  ledger.sync();
  EXPECT_EQ(read_ledger(path_), (Lines{"one", "two"}));
}

TEST_F(LedgerTest, IsEmptyWithoutAFile) { EXPECT_EQ(read_ledger(path_), Lines{}); }

TEST_F(LedgerTest, NamesAFileThatCannotBeOpened) {
  try {
    Ledger ledger("/no/such/folder/ledger");
    FAIL() << "opened it";
  } catch (const PermanentError& error) {
    EXPECT_STREQ(error.what(), "cannot open /no/such/folder/ledger: No such file or directory");
  }
}

}  // namespace
}  // namespace outbox::demo
