#include "client/mysql/facts.h"

#include <gtest/gtest.h>

namespace outbox::mysql {
namespace {

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
