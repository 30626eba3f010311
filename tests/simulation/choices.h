// Every decision of a simulated history, as one list of small numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace outbox::simulation {

// Answers "which of n?". 0 is always the plainest answer: no switch, no fault, the smallest
// workload. The answers are drawn from a seed and remembered, or are those of a history that is
// repeated: beyond their end all are 0. So a history can be made simpler without knowing what its
// decisions mean, by turning them into zeros and cutting them off (shrink.h).
class Choices {
 public:
  using Answers = std::vector<std::uint32_t>;

  explicit Choices(std::uint64_t seed) : random_(seed) {}
  explicit Choices(Answers repeated) : repeats_(true), given_(std::move(repeated)) {}

  // 0 to n - 1, all alike.
  std::uint32_t below(std::uint32_t n) {
    if (n < 2) return 0;
    return note(next([&] { return static_cast<std::uint32_t>(random_() % n); }) % n);
  }

  // True once in `n` times.
  bool one_in(std::uint32_t n) {
    return note(next([&] { return random_() % n == 0 ? 1U : 0U; }) % 2) == 1;
  }

  const Answers& answers() const { return made_; }

 private:
  template <class Draw>
  std::uint32_t next(Draw draw) {
    if (!repeats_) return draw();
    return made_.size() < given_.size() ? given_[made_.size()] : 0;
  }

  std::uint32_t note(std::uint32_t answer) {
    made_.push_back(answer);
    return answer;
  }

  const bool repeats_ = false;
  std::mt19937_64 random_{};
  Answers given_{};
  Answers made_{};
};

}  // namespace outbox::simulation
