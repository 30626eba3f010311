// Plays simulated histories of the engine; see usage().
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "simulation/choices.h"
#include "simulation/plan.h"
#include "simulation/shrink.h"
#include "simulation/world.h"

namespace outbox::simulation {
namespace {

using std::chrono::steady_clock;

constexpr int kViolated = 3;
constexpr std::size_t kShrinkBudget = 2'000;

// A history that takes longer goes round in circles.
constexpr unsigned kSecondsEach = 20;

[[noreturn]] void usage(int status) {
  (status == 0 ? std::cout : std::cerr)
      << ("usage: simulate [--seeds N] [--first SEED] [--minutes M] [--jobs N] [--stop]\n"
          "                [--scenario NAME] [--record FILE]\n"
          "       simulate --regressions [--jobs N] [--stop]\n"
          "       simulate --seed SEED [--scenario NAME] [--trace]\n"
          "       simulate --list\n"
          "\n"
          "  --seeds N        play N histories (20000), each from a seed of its own\n"
          "  --first SEED     the first seed (1)\n"
          "  --minutes M      stop after M minutes\n"
          "  --jobs N         so many at once (2)\n"
          "  --stop           stop at the first that breaks a promise\n"
          "  --scenario NAME  only histories of this kind\n"
          "  --record FILE    go on after the last seed in FILE, up to N, and add what is played\n"
          "                   to it, every 20,000 histories\n"
          "  --regressions    every scenario, with as many histories as would find its fault "
          "again\n"
          "  --seed SEED      play that one; if it fails, make it simpler and print what happens\n"
          "  --trace          print what happens in it as it is\n"
          "  --list           print the scenarios, and what went wrong in each\n"
          "\n"
          "Exit code 1 if a history broke a promise. Each is the same whenever it is played.\n");
  std::exit(status);
}

// Where a child leaves what it has to say.
struct Report {
  Figures figures{};
  std::array<char, 4096> violation{};
  std::size_t answers = 0;
  std::array<std::uint32_t, std::size_t{1} << 18U> list{};
};

Report* shared_report() {
  void* const memory =
      mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    std::exit(2);
  }
  return static_cast<Report*>(memory);
}

// Each history has a process of its own, which begins where all others began.
pid_t start(Report& report, const std::function<Choices()>& choose, const Scenario* scenario,
            bool trace) {
  std::cout.flush();
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(kSecondsEach);
  report.figures = {};
  report.violation[0] = '\0';
  Choices choices = choose();
  const auto leave = [&](int status) {
    report.answers = std::min(choices.answers().size(), report.list.size());
    std::copy_n(choices.answers().begin(), report.answers, report.list.begin());
    std::cout.flush();
    _exit(status);
  };
  const auto violated = [&](const std::string& what) {
    if (trace) std::cout << "VIOLATED: " << what << '\n';
    std::snprintf(report.violation.data(), report.violation.size(), "%s", what.c_str());
    leave(kViolated);
  };
  std::function<void(const std::string&)> tell;
  if (trace) tell = [](const std::string& line) { std::cout << line << std::endl; };
  report.figures = play(choices, scenario, violated, tell);
  leave(0);
  std::abort();  // not reached
}

// What was wrong, or nothing.
std::optional<std::string> verdict(int status, const Report& report) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::nullopt;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kViolated) return report.violation.data();
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return "endless: it does not come to an end";
  return "crash: the process ended with status " + std::to_string(status);
}

std::optional<std::string> play_one(Report& report, const std::function<Choices()>& choose,
                                    const Scenario* scenario, bool trace) {
  const pid_t child = start(report, choose, scenario, trace);
  int status = 0;
  waitpid(child, &status, 0);
  return verdict(status, report);
}

// "order", "lost", ...: what must stay the same while it is made simpler.
std::string_view kind_of(std::string_view violation) {
  return violation.substr(0, violation.find(':'));
}

int explain(std::uint64_t seed, const Scenario* scenario, bool trace) {
  Report& report = *shared_report();
  const auto violation = play_one(
      report, [&] { return Choices(seed); }, scenario, trace);
  if (!violation) {
    std::cout << "seed " << seed << " keeps every promise (" << report.figures.steps << " points, "
              << report.figures.deliveries << " deliveries)\n";
    return 0;
  }
  if (trace) return 1;
  std::cout << "seed " << seed << ": " << *violation << "\nmaking it simpler, from "
            << report.answers << " answers ..." << std::endl;
  Choices::Answers answers(report.list.begin(),
                           report.list.begin() + static_cast<std::ptrdiff_t>(report.answers));
  const std::string kind(kind_of(*violation));
  answers = shrink(
      std::move(answers),
      [&](const Choices::Answers& candidate) {
        const auto found = play_one(
            report, [&] { return Choices(candidate); }, scenario, false);
        return found && kind_of(*found) == kind;
      },
      kShrinkBudget);
  std::cout << answers.size() << " answers are enough:\n";
  play_one(
      report, [&] { return Choices(answers); }, scenario, true);
  return 1;
}

struct Arguments {
  std::uint64_t seeds = 20'000;
  std::uint64_t first = 1;
  double minutes = 1e6;
  std::uint64_t jobs = 2;
  std::optional<std::uint64_t> seed{};
  const Scenario* scenario = nullptr;
  std::string record{};
  bool regressions = false;
  bool list = false;
  bool trace = false;
  bool stop = false;
};

// --- Records ---

// A line for each part: its first seed, how many histories from there on were played, how many of
// them broke a promise, and how much happened in them.
struct Played {
  std::uint64_t first = 0;
  std::uint64_t histories = 0;
  std::uint64_t violations = 0;
  Figures figures{};
};

std::vector<Played> read_record(const std::string& path) {
  std::vector<Played> all;
  std::ifstream file(path);
  for (Played one; file >> one.first >> one.histories >> one.violations >> one.figures.events >>
                   one.figures.deliveries >> one.figures.faults >> one.figures.seconds;) {
    all.push_back(one);
  }
  return all;
}

void add_to_record(const std::string& path, const Played& one) {
  std::ofstream file(path, std::ios::app);
  file << one.first << '\t' << one.histories << '\t' << one.violations << '\t' << one.figures.events
       << '\t' << one.figures.deliveries << '\t' << one.figures.faults << '\t'
       << one.figures.seconds << '\n';
  if (!file.flush()) {
    std::cerr << "simulate: cannot write to " << path << '\n';
    std::exit(2);
  }
}

void print_record(const std::string& path) {
  Played sum;
  for (const Played& one : read_record(path)) {
    sum.histories += one.histories;
    sum.violations += one.violations;
    sum.figures += one.figures;
  }
  std::cout << "all in " << path << ": " << sum.histories << " histories, " << sum.figures.events
            << " events, " << sum.figures.deliveries << " deliveries, " << sum.figures.faults
            << " faults; " << sum.violations << " histories broke a promise\n";
}

// --- Many histories ---

// What is recorded at once, so that little is lost when it is stopped.
class Part {
 public:
  explicit Part(const Arguments& arguments) : record_(arguments.record), first_(arguments.first) {}

  // Where the next one begins.
  std::uint64_t end() const {
    constexpr std::uint64_t kHistories = 20'000;
    return record_.empty() ? std::numeric_limits<std::uint64_t>::max() : first_ + kHistories;
  }
  void add(const Figures& figures, bool violated) {
    figures_ += figures;
    ++histories_;
    violations_ += violated ? 1 : 0;
  }
  void record() {
    if (record_.empty() || histories_ == 0) return;
    add_to_record(record_, {first_, histories_, violations_, figures_});
    first_ += std::exchange(histories_, 0);
    violations_ = 0;
    figures_ = {};
  }

 private:
  const std::string record_;
  std::uint64_t first_;
  std::uint64_t histories_ = 0;
  std::uint64_t violations_ = 0;
  Figures figures_{};
};

int play_many(Arguments arguments) {
  const std::uint64_t end = arguments.first + arguments.seeds;
  for (const Played& one : read_record(arguments.record)) {
    arguments.first = std::max(arguments.first, one.first + one.histories);
  }
  const auto began = steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(steady_clock::now() - began).count();
  };
  struct Running {
    std::uint64_t seed;
    Report* report;
  };
  std::map<pid_t, Running> running;
  std::vector<Report*> free;
  for (std::uint64_t i = 0; i < arguments.jobs; ++i) free.push_back(shared_report());
  std::uint64_t next = arguments.first;
  std::uint64_t done = 0;
  Figures all;
  Part part(arguments);
  std::map<std::string, std::vector<std::uint64_t>> violations;  // by what they begin with
  std::uint64_t most = 0;
  double told = 0;
  while (true) {
    while (!free.empty() && next < std::min(part.end(), end) &&
           elapsed() < arguments.minutes * 60 && !(arguments.stop && !violations.empty())) {
      Report* const report = free.back();
      free.pop_back();
      const std::uint64_t seed = next++;
      running.emplace(start(
                          *report, [&] { return Choices(seed); }, arguments.scenario, false),
                      Running{seed, report});
    }
    if (running.empty()) {
      const bool more = next == part.end() && next < end;
      part.record();
      if (!more) break;
      continue;
    }
    int status = 0;
    const pid_t child = wait(&status);
    const Running ended = running.at(child);
    running.erase(child);
    free.push_back(ended.report);
    ++done;
    const Figures& figures = ended.report->figures;
    most = std::max(most, figures.steps);
    all += figures;
    const auto violation = verdict(status, *ended.report);
    part.add(figures, violation.has_value());
    if (violation) {
      auto& seeds = violations[std::string(kind_of(*violation))];
      seeds.push_back(ended.seed);
      if (seeds.size() <= 3) std::cout << "seed " << ended.seed << ": " << *violation << '\n';
    }
    if (elapsed() - told >= 10) {
      told = elapsed();
      std::cout << done << " histories in " << std::lround(told) << " s, " << violations.size()
                << " kinds of violations" << std::endl;
    }
  }
  std::cout << done << " histories in " << std::lround(elapsed()) << " s: " << all.events
            << " events, " << all.deliveries << " deliveries, " << all.faults << " faults, "
            << all.seconds << " s of simulated time, " << all.steps
            << " points at which another thread could go on, " << most
            << " of them in one history\n";
  for (const auto& [kind, seeds] : violations) {
    std::cout << kind << ": " << seeds.size() << " times, first with seed "
              << *std::min_element(seeds.begin(), seeds.end()) << '\n';
  }
  if (violations.empty()) std::cout << "no promise was broken\n";
  if (!arguments.record.empty()) print_record(arguments.record);
  return violations.empty() ? 0 : 1;
}

int play_regressions(Arguments arguments) {
  int result = 0;
  for (const Scenario& scenario : scenarios()) {
    std::cout << scenario.name << ": ";
    arguments.scenario = &scenario;
    arguments.seeds = scenario.budget;
    result = std::max(result, play_many(arguments));
    if (result != 0 && arguments.stop) break;
  }
  return result;
}

int list_scenarios() {
  for (const Scenario& scenario : scenarios()) {
    std::cout << scenario.name << ": " << scenario.story << " (" << scenario.budget
              << " histories)\n";
  }
  return 0;
}

Arguments parse(int count, char** arguments) {
  Arguments parsed;
  const auto number = [](const char* text, auto& value) {
    const char* const end = text == nullptr ? nullptr : text + std::strlen(text);
    if (text == nullptr || std::from_chars(text, end, value).ptr != end || text == end) usage(2);
  };
  for (int i = 1; i < count; ++i) {
    const std::string_view name = arguments[i];
    const char* const value = i + 1 < count ? arguments[i + 1] : nullptr;
    if (name == "--help" || name == "-h") usage(0);
    const std::map<std::string_view, bool*> flags{{"--trace", &parsed.trace},
                                                  {"--stop", &parsed.stop},
                                                  {"--list", &parsed.list},
                                                  {"--regressions", &parsed.regressions}};
    if (const auto flag = flags.find(name); flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    if (name == "--seeds") {
      number(value, parsed.seeds);
    } else if (name == "--first") {
      number(value, parsed.first);
    } else if (name == "--minutes") {
      number(value, parsed.minutes);
    } else if (name == "--jobs") {
      number(value, parsed.jobs);
    } else if (name == "--seed") {
      number(value, parsed.seed.emplace());
    } else if (name == "--record" && value != nullptr) {
      parsed.record = value;
    } else if (name == "--scenario" && value != nullptr) {
      parsed.scenario = find_scenario(value);
      if (parsed.scenario == nullptr) {
        std::cerr << "simulate: there is no scenario \"" << value << "\"; see --list\n";
        std::exit(2);
      }
    } else {
      usage(2);
    }
    ++i;
  }
  return parsed;
}

// Where things lie in memory must not differ from one run to the next.
void without_random_addresses(char** arguments) {
  const int now = personality(0xffffffff);
  if (now == -1 || (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) == -1) return;
  execv("/proc/self/exe", arguments);
}

}  // namespace
}  // namespace outbox::simulation

int main(int count, char** arguments) {
  using namespace outbox::simulation;
  without_random_addresses(arguments);
  const Arguments parsed = parse(count, arguments);
  if (parsed.list) return list_scenarios();
  if (parsed.seed) return explain(*parsed.seed, parsed.scenario, parsed.trace);
  return parsed.regressions ? play_regressions(parsed) : play_many(parsed);
}
