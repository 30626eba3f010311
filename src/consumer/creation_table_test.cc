#include "consumer/creation_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "outbox/error.h"

namespace outbox::internal {
namespace {

TEST(PublicId, HasItsPrefixAndTwentyCharactersOfBase32) {
  const std::string id = new_public_id("ord");
  ASSERT_EQ(id.size(), 24u);
  EXPECT_EQ(id.substr(0, 4), "ord_");
  EXPECT_EQ(id.find_first_not_of("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 4), std::string::npos) << id;
  EXPECT_EQ(new_public_id("").size(), 20u);
}

TEST(PublicId, EveryPlaceTakesEveryCharacterAndNoneComesTwice) {
  std::set<std::string> ids;
  std::map<std::size_t, std::set<char>> seen;
  for (int n = 0; n < 2'000; ++n) {
    const std::string id = new_public_id("");
    for (std::size_t place = 0; place < id.size(); ++place) seen[place].insert(id[place]);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 2'000u);
  // That one is missing at any of them: less than once in 10^24.
  for (const auto& [place, characters] : seen) EXPECT_EQ(characters.size(), 32u) << place;
}

TEST(PublicId, APrefixIsShortAndFitForAUrl) {
  EXPECT_NO_THROW(check_public_id_prefix("prefix", ""));
  EXPECT_NO_THROW(check_public_id_prefix("prefix", "Ord-2_x"));
  EXPECT_NO_THROW(check_public_id_prefix("prefix", std::string(32, 'a')));
  for (const std::string& bad :
       {std::string(33, 'a'), std::string("a b"), std::string("a/b"), std::string("\xc3\xa4"),
        std::string("\xff"), std::string("a\0b", 3)}) {
    EXPECT_THROW(check_public_id_prefix("prefix", bad), MisuseError) << bad;
  }
}

}  // namespace
}  // namespace outbox::internal
