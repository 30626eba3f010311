// Measuring variants side by side, and saying how they compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::bench {

class Subject;

// What the user asked for.
struct Settings {
  std::string store = "sqlite";
  int rounds = 5;
  bool quick = false;  // smaller sizes: to see that it works, not how fast
  std::string only{};  // one benchmark, or all
  std::filesystem::path output{};

  // `full`, or a fraction of it for a quick run.
  std::size_t size(std::size_t full, std::size_t fraction = 10) const {
    return quick ? full / fraction : full;
  }
};

// One value a round.
using Samples = std::vector<double>;

double quantile(Samples samples, double q);
inline double median(const Samples& samples) { return quantile(samples, 0.5); }

// The range from the lowest to the highest sample, as a part of the median.
double spread(const Samples& samples);

// Round by round, so that what slows a whole round down cancels out.
Samples ratio(const Samples& of, const Samples& to);

struct Variant {
  std::string name{};
  std::function<double()> measure{};
};

// Measures every variant once a round. Each round starts with another variant,
// so that none always follows the same one. One result for each variant.
std::vector<Samples> interleave(std::span<const Variant> variants, int rounds);

// What a figure has to reach.
struct Bar {
  enum class Side { at_least, at_most };
  Side side = Side::at_least;
  double limit = 0;

  bool met(double value) const { return side == Side::at_least ? value >= limit : value <= limit; }
};
inline Bar at_least(double limit) { return {Bar::Side::at_least, limit}; }
inline Bar at_most(double limit) { return {Bar::Side::at_most, limit}; }
inline std::optional<Bar> at_most(std::optional<double> limit) {
  return limit ? std::optional(at_most(*limit)) : std::nullopt;
}

// Collects the figures of a run; prints each benchmark as a table, and saves
// all as JSON lines.
class Report {
 public:
  explicit Report(std::string store) : store_(std::move(store)) {}

  // Begins a benchmark: what follows belongs to it.
  void begin(std::string bench, std::string_view about);

  void add(std::string variant, const Samples& samples, std::string unit,
           std::optional<Bar> bar = std::nullopt);

  // Prints the table of the benchmark that was begun last.
  void print() const;

  void save(const std::filesystem::path& file) const;

  // Prints the bars that were missed; how many.
  std::size_t print_missed() const;

 private:
  struct Line {
    std::string bench;
    std::string variant;
    double value;
    std::string unit;
    double spread;
    std::optional<Bar> bar;
  };

  const std::string store_;
  std::string bench_;
  std::vector<Line> lines_;
};

// How long a call takes, in seconds.
double seconds_of(const std::function<void()>& call);

// Writes a progress message that is no result.
void note(std::string_view text);

// A way to write that is compared with others: one transaction of the given writer. Its
// writers run on a thread each.
struct Contestant {
  std::string name{};
  std::function<void(std::size_t writer, std::uint64_t number)> transaction{};
};

// Transactions of one statement without the library, on a connection for each writer.
Contestant by_c_api(std::string name, Subject& subject, const std::string& database,
                    std::size_t writers, std::string (*statement)(std::uint64_t number));

// Transactions a second of each contestant, all writers together. They take turns that
// are as short as possible: what disturbs the disk for a moment disturbs all of them.
std::vector<Samples> in_turns(std::span<const Contestant> contestants, std::size_t writers,
                              std::size_t transactions, int rounds);

}  // namespace outbox::bench
