// A process that is stopped in the middle of a change of ownership.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "store/mysql/lock_test_support.h"

namespace outbox::mysql {
namespace {

// What the child's exit code tells.
enum Exit { kAsItShould = 0, kNeverLostItsTurn = 1, kCouldNotComeBack = 2 };

// A process that joins, and says what became of that.
class Child {
 public:
  explicit Child(const std::string& url) : pid_(fork()) {
    if (pid_ == 0) _exit(join(url));
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void stop() {
    kill(pid_, SIGSTOP);
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }

  // Its exit code.
  int go_on() {
    kill(pid_, SIGCONT);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static Exit join(const std::string& url) {
    const auto store = open(url);
    const auto instance = store->join({.lease = 9s});
    try {
      instance->renew();
      return kNeverLostItsTurn;
    } catch (const RetryableError&) {
    }
    // It did not register, and does so now.
    return works_again([&] { instance->renew(); }) ? kAsItShould : kCouldNotComeBack;
  }

  pid_t pid_;
};

class MysqlStoppedTest : public MysqlTest {
 protected:
  std::string instances() { return sql().value("SELECT count(*) FROM outbox_event_instance"); }
};

// It has the turn: nobody else can change who owns what. The server ends its connection
// when that was idle for as long as its lease.
TEST_F(MysqlStoppedTest, WhoIsStoppedInTheMiddleOfAChangeLosesTheTurnAfterItsLease) {
  const auto store = open_store();
  const auto one = store->join({.lease = 60s});
  const Lease before = one->renew();
  ASSERT_EQ(before.shards.size(), 16U);
  // Whoever registers waits here, in the middle of its transaction.
  sql().execute("CREATE TABLE gate (id INT PRIMARY KEY, n INT); INSERT INTO gate VALUES (1, 0)");
  sql().execute(
      "CREATE TRIGGER wait_at_the_gate AFTER INSERT ON outbox_event_instance"
      " FOR EACH ROW UPDATE gate SET n = n + 1");
  test::Mysql keeper(url());
  keeper.execute("BEGIN; SELECT * FROM gate FOR UPDATE");
  Child child(url());
  ASSERT_TRUE(wait_for_waiters(sql(), 1));
  child.stop();
  keeper.execute("COMMIT");

  std::atomic<bool> joined{false};
  const auto two = store->join({.lease = 60s});
  std::jthread joining([&] {
    EXPECT_TRUE(works_again([&] { two->renew(); }));
    joined = true;
  });
  EXPECT_TRUE(wait_for_waiters(sql(), 1)) << "it waits for the turn";
  EXPECT_FALSE(joined);
  const Lease during = one->renew();
  EXPECT_EQ(during.epoch, before.epoch) << "leases are renewed without it";
  EXPECT_EQ(during.shards, before.shards);
  joining.join();
  EXPECT_EQ(instances(), "2") << "what the child had begun is rolled back";
  EXPECT_EQ(one->renew().draining.size(), 8U);

  EXPECT_EQ(child.go_on(), kAsItShould);
  EXPECT_EQ(instances(), "3");
}

}  // namespace
}  // namespace outbox::mysql
