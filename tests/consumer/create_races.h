// Two processes that send the same requests at the same moments.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "creations.h"
#include "outbox/error.h"
#include "support/temporary_directory.h"

namespace outbox::patterns {

// Lets two processes go on together. To be made before they are.
class TwoProcesses {
 public:
  TwoProcesses() {
    void* memory = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    arrived_ = new (memory) std::atomic<int>(0);
  }
  ~TwoProcesses() { munmap(arrived_, sizeof(std::atomic<int>)); }
  TwoProcesses(const TwoProcesses&) = delete;
  TwoProcesses& operator=(const TwoProcesses&) = delete;

  // For the nth time, counted from 1. Throws std::runtime_error if the other one stays away.
  void meet(int n) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    ++*arrived_;
    while (*arrived_ < 2 * n) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error("the other process did not come");
      }
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<int>* arrived_ = nullptr;
};

class CreateRaceTest : public CreationTest {
 protected:
  enum class By { run, join };

  // The calls of former times, which have failed, leave all keys to be taken over.
  void leave_failures(int rounds) {
    IdempotentCreate create{*writer_, quiet()};
    const auto fail = [](Transaction&, const NewIds&) -> std::string {
      throw std::runtime_error("no paper");
    };
    for (int n = 0; n < rounds; ++n) {
      EXPECT_THROW(create.run(request("k" + std::to_string(n)), fail), std::runtime_error);
    }
  }

  // Every key is asked for by both; whatever they meet, one thing is created for each,
  // and both get its reference.
  void race(By by, int rounds) {
    close_all();
    {
      TwoProcesses meeting;
      harness::Process one([&] { return ask(by, rounds, meeting, "one"); });
      harness::Process other([&] { return ask(by, rounds, meeting, "other"); });
      EXPECT_EQ(one.wait(std::chrono::minutes{9}), harness::ExitStatus{});
      EXPECT_EQ(other.wait(std::chrono::minutes{9}), harness::ExitStatus{});
    }
    open_all();
    EXPECT_EQ(things(), rounds);
    EXPECT_EQ(events(), rounds);
    EXPECT_EQ(number("SELECT count(DISTINCT public_id) FROM thing"), rounds);
    EXPECT_EQ(number("SELECT count(*) FROM " + table() + " c JOIN thing t ON" +
                     " t.public_id = c.result_ref WHERE c.state = 1"),
              rounds);
    const auto told_one = results("one");
    EXPECT_EQ(static_cast<int>(told_one.size()), rounds);
    EXPECT_EQ(told_one, results("other"));
  }

 private:
  int ask(By by, int rounds, TwoProcesses& meeting, const std::string& name) {
    Writer writer{database().open()};
    IdempotentCreate create{writer, quiet({.wait = std::chrono::seconds{30}})};
    std::ofstream told(directory_.file(name));
    for (int n = 0; n < rounds; ++n) {
      const std::string key = "k" + std::to_string(n);
      meeting.meet(n + 1);
      told << key << ' ' << *once(by, writer, create, key).result << '\n';
    }
    return told.flush() ? 0 : 1;
  }

  static Creation<> once(By by, Writer& writer, IdempotentCreate& create, const std::string& key) {
    for (;;) {
      try {
        if (by == By::run) return create.run(request(key), make);
        auto tx = writer.begin();
        Creation creation = create.join(tx, request(key), make);
        tx.commit();
        return creation;
      } catch (const RetryableError&) {  // as it says
      }
    }
  }

  std::map<std::string, std::string> results(const std::string& name) const {
    std::map<std::string, std::string> result;
    std::ifstream told(directory_.file(name));
    for (std::string key, ref; told >> key >> ref;) result[key] = ref;
    return result;
  }

  const test::TemporaryDirectory directory_;
};

}  // namespace outbox::patterns
