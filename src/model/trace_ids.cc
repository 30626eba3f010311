#include "model/trace_ids.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <random>

#include "base/thread.h"

namespace outbox {
namespace {

// How many forks lie between this process and the first one that made an id. A
// handler counts them, because asking for the process id is a system call.
std::atomic<unsigned> forks{0};

void count_forks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
  if (registered != 0) throw std::bad_alloc();
}

std::mt19937_64 seeded_generator() {
  std::array<unsigned, 16> words{};
  std::generate(words.begin(), words.end(), random_seed);
  std::seed_seq seed(words.begin(), words.end());
  return std::mt19937_64(seed);
}

// One per thread, so that nobody waits for anybody.
struct Generator {
  unsigned seeded_at;
  std::mt19937_64 random;
};

std::uint64_t random_word() {
  thread_local Generator generator = [] {
    count_forks();
    return Generator{forks.load(), seeded_generator()};
  }();
  if (generator.seeded_at != forks.load(std::memory_order_relaxed)) {
    generator = {forks.load(), seeded_generator()};
  }
  return generator.random();
}

template <std::size_t size>
std::array<std::uint8_t, size> random_id() {
  static_assert(size % sizeof(std::uint64_t) == 0);
  std::array<std::uint8_t, size> id{};
  while (id == std::array<std::uint8_t, size>{}) {
    for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random_word();
      std::memcpy(id.data() + i, &word, sizeof word);
    }
  }
  return id;
}

}  // namespace

TraceId new_trace_id() { return random_id<16>(); }

SpanId new_span_id() { return random_id<8>(); }

bool sampled(const TraceId& id, double ratio) noexcept {
  // The last 56 bits: those that the recommendation wants to be random.
  std::uint64_t tail = 0;
  for (std::size_t i = 9; i < id.size(); ++i) tail = tail << 8U | id[i];
  constexpr double kTails = 72'057'594'037'927'936.0;  // 2^56
  return static_cast<double>(tail) < ratio * kTails;
}

}  // namespace outbox
