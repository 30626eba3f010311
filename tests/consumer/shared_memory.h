// What processes that are copies of one test have in common.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace outbox::patterns {

// A T that copies of this process share with it. Only for what can be shared: numbers and
// atomics.
template <class T>
class SharedMemory {
 public:
  SharedMemory()
      : at_(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    new (at_) T();
  }
  ~SharedMemory() { munmap(at_, sizeof(T)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  T& operator*() const { return *static_cast<T*>(at_); }
  T* operator->() const { return static_cast<T*>(at_); }

 private:
  void* const at_;
};

// Where processes meet, again and again.
class Meeting {
 public:
  // Until so many have come to the meeting of that number, from 1 on. Throws
  // std::runtime_error if one of them stays away for a minute.
  void wait(std::uint64_t number, std::uint64_t processes) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    ++arrived_;
    while (arrived_ < number * processes) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error("another process did not come");
      }
      std::this_thread::yield();
    }
  }

 private:
  std::atomic<std::uint64_t> arrived_{0};
};

}  // namespace outbox::patterns
