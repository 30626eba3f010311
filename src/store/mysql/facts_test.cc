#include "client/mysql/facts.h"

#include <gtest/gtest.h>

#include "store/mysql/test_support.h"

namespace outbox::mysql {
namespace {

History history(const std::string& server, const std::string& position) {
  return {.server = server, .position = position};
}

TEST(MysqlHistory, EndsWithAnotherServerAndWithAPositionThatGoesBack) {
  const History known = history("1/0/x", "0-1-100,5-2-7");
  EXPECT_FALSE(known.ends_before(known));
  EXPECT_FALSE(known.ends_before(history("1/0/x", "0-1-101,5-2-7,9-9-1")));
  EXPECT_FALSE(known.ends_before(history("1/0/x", "5-3-8,0-7-100"))) << "by domain alone";
  EXPECT_TRUE(known.ends_before(history("2/0/x", "0-1-101,5-2-7")));
  EXPECT_TRUE(known.ends_before(history("1/0/x", "0-1-99,5-2-7")));
  EXPECT_TRUE(known.ends_before(history("1/0/x", "0-1-100")));
  EXPECT_TRUE(known.ends_before(history("1/0/x", "")));
  EXPECT_TRUE(history("cluster u", "cluster-20").ends_before(history("cluster u", "cluster-19")));
  EXPECT_FALSE(history("cluster u", "cluster-9").ends_before(history("cluster u", "cluster-10")));
}

TEST(MysqlHistory, OfNothingKnownDoesNotEnd) {
  EXPECT_FALSE(History{}.ends_before(history("1/0/x", "0-1-100")));
  EXPECT_FALSE(history("1/0/x", "").ends_before(history("1/0/x", "")));
}

// MySQL compares its sets itself.
TEST(MysqlHistory, EndsWhereTheServerSaysThatSomethingIsMissing) {
  const History known = history("u", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5");
  History now = known;
  EXPECT_FALSE(known.ends_before(now));
  now.includes_last = false;
  EXPECT_TRUE(known.ends_before(now));
}

class MysqlHistoryTest : public MysqlTest {
 protected:
  static History read(Database& database, const History& last) {
    Built select("look", config_of(database));
    select.sql("SELECT 'first', ");
    database.ensure_connected();
    History::append_columns(select, database.facts(), last);
    return History::of(database.run(select), 1);
  }
};

TEST_F(MysqlHistoryTest, IsTheSameOnEveryConnectionToTheServer) {
  Database one(config());
  Database two(config());
  const History first = read(one, {});
  sql().execute("CREATE TABLE something (n int); INSERT INTO something VALUES (1)");
  const History second = read(two, first);
  EXPECT_FALSE(first.server.empty());
  EXPECT_FALSE(first.ends_before(second)) << first.position << " " << second.position;
  EXPECT_EQ(one.facts().server(), first.server);
  EXPECT_EQ(two.facts().server(), first.server);
  if (one.facts().is_on("log_bin")) {
    EXPECT_FALSE(second.position.empty());
    EXPECT_NE(second.position, first.position);
    // What is known of later times is missing in earlier ones.
    EXPECT_TRUE(second.ends_before(first) || one.facts().has("server_uuid"));
  }
}

TEST(MysqlFacts, AServerThatTakesWritesIsReady) {
  EXPECT_EQ(Facts({}, {}).unready(), "");
  EXPECT_EQ(Facts({{"read_only", "OFF"}, {"innodb_read_only", "0"}}, {}).unready(), "");
  EXPECT_EQ(Facts({}, {{"wsrep_ready", "ON"}, {"wsrep_cluster_status", "Primary"}}).unready(), "");
}

TEST(MysqlFacts, AServerThatTakesNoneSaysWhy) {
  EXPECT_EQ(Facts({{"read_only", "ON"}}, {}).unready(), "read_only is ON");
  EXPECT_EQ(Facts({{"super_read_only", "1"}}, {}).unready(), "super_read_only is ON");
  EXPECT_EQ(Facts({{"innodb_read_only", "ON"}}, {}).unready(), "innodb_read_only is ON");
  EXPECT_EQ(Facts({{"offline_mode", "ON"}}, {}).unready(), "offline_mode is ON");
  EXPECT_EQ(Facts({}, {{"wsrep_ready", "OFF"}}).unready(), "wsrep_ready is OFF");
  EXPECT_EQ(Facts({}, {{"wsrep_ready", "ON"}, {"wsrep_cluster_status", "non-Primary"}}).unready(),
            "wsrep_cluster_status is non-Primary");
}

TEST(MysqlFacts, NodesOfOneClusterAreOneServer) {
  const auto node = [](const std::string& number) {
    return Facts({{"server_id", number}}, {{"wsrep_cluster_state_uuid", "abc"}}).server();
  };
  EXPECT_EQ(node("1"), node("2"));
  EXPECT_NE(Facts({{"server_id", "1"}}, {}).server(), Facts({{"server_id", "2"}}, {}).server());
  EXPECT_NE(Facts({{"server_uuid", "1"}, {"server_id", "1"}}, {}).server(),
            Facts({{"server_uuid", "2"}, {"server_id", "1"}}, {}).server());
}

}  // namespace

}  // namespace outbox::mysql
