// Two processes that get the same events at the same moment.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "database.h"
#include "outbox/consumer/inbox.h"
#include "outbox/error.h"
#include "shared_memory.h"

namespace outbox::patterns {

class InboxRace : public PatternTest {
 protected:
  static constexpr std::size_t kProcesses = 2;

  // So many events, one after the other: each has one effect.
  void race(std::size_t events) {
    execute("CREATE TABLE effect (event_id VARCHAR(128) NOT NULL)");
    close_store();
    const auto started = std::chrono::steady_clock::now();
    {
      std::array<std::unique_ptr<harness::Process>, kProcesses> processes;
      for (std::size_t n = 0; n < kProcesses; ++n) {
        processes[n] = std::make_unique<harness::Process>([=, this] { return consume(n, events); });
      }
      for (const auto& process : processes) {
        ASSERT_EQ(process->wait(std::chrono::minutes{9}), harness::ExitStatus{})
            << "a process failed";
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
    open_store();
    const auto expected = static_cast<std::int64_t>(events);
    EXPECT_EQ(number("SELECT count(DISTINCT event_id) FROM effect"), expected) << "zero effects";
    EXPECT_EQ(number("SELECT count(*) FROM effect"), expected) << "two effects";
    EXPECT_EQ(number("SELECT count(*) FROM " + store()->side_table("inbox")), expected);
    EXPECT_EQ(shared_->effects[0] + shared_->effects[1], events);
    // Otherwise it was no race.
    EXPECT_GT(shared_->effects[0], 0u);
    EXPECT_GT(shared_->effects[1], 0u);
    RecordProperty("first", std::to_string(shared_->effects[0]));
    RecordProperty("second", std::to_string(shared_->effects[1]));
    RecordProperty("retries", std::to_string(shared_->retries));
    RecordProperty("seconds", std::to_string(seconds.count()));
  }

 private:
  struct Shared {
    Meeting meeting;
    std::array<std::atomic<std::size_t>, kProcesses> effects{};
    std::atomic<std::size_t> retries{0};
  };

  // In a process of its own.
  int consume(std::size_t self, std::size_t events) {
    const auto store = database().open();
    Writer writer{store};
    Inbox inbox{store};
    for (std::size_t n = 1; n <= events; ++n) {
      shared_->meeting.wait(n, kProcesses);
      shared_->effects[self] += deliver(writer, inbox, "event " + std::to_string(n)) ? 1 : 0;
    }
    return 0;
  }

  bool deliver(Writer& writer, Inbox& inbox, const std::string& id) {
    for (;;) {
      try {
        auto tx = writer.begin();
        const bool first = inbox.once(
            tx, "billing", id, [&] { tx.execute("INSERT INTO effect VALUES ('" + id + "')"); });
        tx.commit();
        return first;
      } catch (const RetryableError&) {
        ++shared_->retries;
      }
    }
  }

  const SharedMemory<Shared> shared_;
};

}  // namespace outbox::patterns
