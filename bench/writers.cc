#include "writers.h"

#include <thread>

namespace outbox::bench {
namespace {

// Long enough that it does not matter how long a thread takes to start.
constexpr std::size_t kTurn = 25;

double seconds_of_turn(const Contestant& contestant, std::size_t writers, std::uint64_t first) {
  if (writers == 1) return seconds_of([&] { contestant.transaction(0, first); });
  return seconds_of([&] {
    std::vector<std::jthread> threads;
    for (std::size_t writer = 0; writer < writers; ++writer) {
      threads.emplace_back([&contestant, writer, from = first + writer * kTurn] {
        for (std::size_t n = 0; n < kTurn; ++n) contestant.transaction(writer, from + n);
      });
    }
  });
}

}  // namespace

std::vector<Samples> in_turns(std::span<const Contestant> contestants, std::size_t writers,
                              std::size_t transactions, int rounds) {
  const std::size_t in_turn = writers == 1 ? 1 : writers * kTurn;
  std::vector<Samples> rates(contestants.size());
  std::uint64_t number = 0;
  for (int round = 0; round < rounds; ++round) {
    note("round " + std::to_string(round + 1) + " of " + std::to_string(rounds));
    std::vector<double> seconds(contestants.size());
    std::size_t written = 0;
    for (std::size_t turn = 0; written < transactions; ++turn) {
      for (std::size_t k = 0; k < contestants.size(); ++k) {
        const std::size_t i = (turn + k) % contestants.size();
        seconds[i] += seconds_of_turn(contestants[i], writers, number);
      }
      number += in_turn;
      written += in_turn;
    }
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      rates[i].push_back(static_cast<double>(written) / seconds[i]);
    }
  }
  return rates;
}

}  // namespace outbox::bench
