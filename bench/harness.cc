#include "harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "subject.h"

namespace outbox::bench {
namespace {

// Four significant digits, without an exponent.
std::string figure(double value) {
  const int digits = value == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::abs(value))));
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", std::clamp(3 - digits, 0, 6), value);
  return text;
}

std::string percent(double part) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", part * 100);
  return text;
}

std::string describe(const Bar& bar) {
  return (bar.side == Bar::Side::at_least ? ">= " : "<= ") + figure(bar.limit);
}

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

double quantile(Samples samples, double q) {
  if (samples.empty()) throw std::logic_error("no samples");
  std::sort(samples.begin(), samples.end());
  const double at = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  return std::lerp(samples[below], samples[above], at - static_cast<double>(below));
}

double spread(const Samples& samples) {
  const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
  return (*high - *low) / median(samples);
}

Samples ratio(const Samples& of, const Samples& to) {
  Samples result;
  for (std::size_t i = 0; i < of.size(); ++i) result.push_back(of[i] / to[i]);
  return result;
}

std::vector<Samples> interleave(std::span<const Variant> variants, int rounds) {
  std::vector<Samples> samples(variants.size());
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round) {
    note("round " + std::to_string(round + 1) + " of " + std::to_string(rounds));
    for (std::size_t n = 0; n < variants.size(); ++n) {
      const std::size_t i = (round + n) % variants.size();
      samples[i].push_back(variants[i].measure());
    }
  }
  return samples;
}

void Report::begin(std::string bench, std::string_view about) {
  bench_ = std::move(bench);
  std::printf("\n%s: %.*s\n", bench_.c_str(), static_cast<int>(about.size()), about.data());
  std::fflush(stdout);
}

void Report::add(std::string variant, const Samples& samples, std::string unit,
                 std::optional<Bar> bar) {
  lines_.push_back({.bench = bench_,
                    .variant = std::move(variant),
                    .value = median(samples),
                    .unit = std::move(unit),
                    .spread = spread(samples),
                    .bar = bar});
}

void Report::print() const {
  std::printf("  %-38s %12s %-9s %8s  %-9s %s\n", "variant", "median", "unit", "spread", "bar",
              "met");
  for (const Line& line : lines_) {
    if (line.bench != bench_) continue;
    std::printf("  %-38s %12s %-9s %8s  %-9s %s\n", line.variant.c_str(),
                figure(line.value).c_str(), line.unit.c_str(), percent(line.spread).c_str(),
                line.bar ? describe(*line.bar).c_str() : "",
                !line.bar                   ? ""
                : line.bar->met(line.value) ? "yes"
                                            : "NO");
  }
  std::fflush(stdout);
}

void Report::save(const std::filesystem::path& file) const {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file);
  for (const Line& line : lines_) {
    out << R"({"bench":")" << line.bench << R"(","store":")" << store_ << R"(","variant":")"
        << line.variant << R"(","value":)" << figure(line.value) << R"(,"unit":")" << line.unit
        << R"(","spread":)" << figure(line.spread) << "}\n";
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

std::size_t Report::print_missed() const {
  std::size_t missed = 0;
  for (const Line& line : lines_) {
    if (!line.bar || line.bar->met(line.value)) continue;
    ++missed;
    std::printf("missed: %s, %s: %s %s, bar %s\n", line.bench.c_str(), line.variant.c_str(),
                figure(line.value).c_str(), line.unit.c_str(), describe(*line.bar).c_str());
  }
  if (missed == 0) std::printf("all bars met\n");
  return missed;
}

double seconds_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void note(std::string_view text) {
  std::fprintf(stderr, "  %.*s\n", static_cast<int>(text.size()), text.data());
}

Contestant by_c_api(std::string name, Subject& subject, const std::string& database,
                    std::size_t writers, std::string (*statement)(std::uint64_t)) {
  auto connections = std::make_shared<std::vector<std::unique_ptr<BareConnection>>>();
  for (std::size_t n = 0; n < writers; ++n) connections->push_back(subject.connect(database));
  return {std::move(name), [connections, statement](std::size_t writer, std::uint64_t number) {
            const BareConnection& connection = *(*connections)[writer];
            connection.exec("BEGIN");
            connection.exec(statement(number));
            connection.exec("COMMIT");
          }};
}

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
