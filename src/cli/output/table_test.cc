#include "cli/output/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace outbox::cli {
namespace {

std::string text_of(const Table& table, const TableLook& look = {}) {
  std::ostringstream out;
  table.print(out, look);
  return out.str();
}

Table sample() {
  Table table(
      {{.title = "N", .right = true}, {.title = "NAME", .shrinks = true}, {.title = "END"}});
  table.add({std::string("1"), std::string("short"), std::string()});
  table.add({std::string("1000"), std::string("a long name"), std::string("x")});
  return table;
}

TEST(TableTest, AlignsColumnsWithoutBlanksAtTheEnd) {
  EXPECT_EQ(text_of(sample()),
            "   N  NAME         END\n"
            "   1  short\n"
            "1000  a long name  x\n");
}

TEST(TableTest, CutsWhatMayShrinkWhereThereIsNoRoom) {
  EXPECT_EQ(text_of(sample(), {.width = 20}),
            "   N  NAME       END\n"
            "   1  short\n"
            "1000  a long n…  x\n");
  EXPECT_EQ(text_of(sample(), {.width = 3}),
            "   N  NAME      END\n"
            "   1  short\n"
            "1000  a long …  x\n")
      << "no narrower than makes sense";
}

TEST(TableTest, LeavesOutWhatIsEmptyThroughout) {
  Table table({{.title = "A", .optional = true}, {.title = "B", .optional = true}, {.title = "C"}});
  table.add({std::string(), std::string("b"), std::string()});
  EXPECT_EQ(text_of(table), "B  C\nb\n");
  table.add({std::string("a"), std::string(), std::string()});
  EXPECT_EQ(text_of(table), "A  B  C\n   b\na\n");
}

TEST(TableTest, ColorsCountForNothing) {
  Table table({{.title = "A"}, {.title = "B"}});
  table.add({{"x", Style::bad}, std::string("y")});
  table.add({std::string("xx"), std::string("y")});
  EXPECT_EQ(text_of(table, {.color = true}),
            "\x1b[1mA\x1b[0m   \x1b[1mB\x1b[0m\n"
            "\x1b[31mx\x1b[0m   y\n"
            "xx  y\n");
}

TEST(TableTest, ControlCharactersBecomeEscapes) {
  Table table({{.title = "A"}});
  table.add({std::string("a\nb\x1b[2J\xff")});
  table.add({std::string("\u202egnp.exe\xc2\x9b")});
  EXPECT_EQ(text_of(table), "A\na\\nb\\x1b[2J\\xff\n\\u202egnp.exe\\xc2\\x9b\n");
}

}  // namespace
}  // namespace outbox::cli
