#include "campaign.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <map>
#include <ostream>
#include <random>
#include <sstream>
#include <stdexcept>

#include "harness/ledger.h"
#include "harness/process.h"

namespace outbox::chaos {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Much longer than any run takes: one that is not over by then hangs.
constexpr std::chrono::minutes kLongestRun{15};

constexpr std::string_view kKills = "SIGKILLs";
constexpr std::string_view kServerKills = "database kills";
constexpr std::string_view kPromotions = "promotions";
constexpr std::string_view kCommitCuts = "cuts inside COMMIT";
constexpr std::string_view kFreezes = "freezes past the lease";
constexpr std::string_view kEvents = "events";

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// As the records call it.
std::string description_of(const Kind& kind) {
  const std::vector<std::string> words = words_of(kind.arguments);
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  return description_of(parse_settings(arguments));
}

std::int64_t sum(std::span<const PastRun> runs, std::string_view column) {
  std::int64_t total = 0;
  for (const PastRun& run : runs) total += run.number(column);
  return total;
}

double share(const Goal& goal, std::span<const PastRun> runs) {
  return static_cast<double>(reached(goal, runs)) / static_cast<double>(goal.target);
}

bool violated(const PastRun& run) { return run.text("verdict") != "clean"; }

// The last lines of what it said.
void print_end(std::ostream& out, const std::string& log) {
  constexpr std::size_t kLines = 40;
  const std::vector<std::string> lines = harness::read_lines(log);
  for (std::size_t i = lines.size() - std::min(kLines, lines.size()); i < lines.size(); ++i) {
    out << "  " << lines[i] << '\n';
  }
}

}  // namespace

const std::vector<Goal>& goals() {
  static const std::vector<Goal> all{
      {kKills, {"kills"}, 2'000},
      {kServerKills, {"server kills"}, 100},
      {kPromotions, {"promotions"}, 50},
      {kCommitCuts, {"commits cut before", "commits cut during", "commits cut after"}, 500},
      {kFreezes, {"freezes", "stops beyond the lease"}, 100},
      {kEvents, {"committed"}, 2'000'000}};
  return all;
}

// Where commits are lost with a promotion, the lease is long, so that nobody's ends meanwhile.
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = [] {
    std::vector<Kind> result;
    for (const std::string mode : {"ordered", "none", "claims"}) {
      result.push_back({"--store sqlite --mode " + mode + " --kills 120 --seconds 30 --rate 2000",
                        {kKills, kEvents}});
    }
    for (const std::string mode : {"ordered", "none", "claims"}) {
      for (const std::string store : {"postgres", "mysql"}) {
        result.push_back({"--store " + store + " --mode " + mode +
                              " --kills 80 --cuts 60 --server-kills 8 --freezes 3 --lease 2"
                              " --seconds 40 --rate 1200 --in-memory",
                          {kKills, kServerKills, kCommitCuts, kFreezes, kEvents}});
      }
    }
    result.push_back(
        {"--store mysql --no-binlog --mode ordered --kills 20 --cuts 20"
         " --server-kills 10 --lease 2 --seconds 25 --rate 1200 --in-memory",
         {kServerKills, kCommitCuts}});
    // A replica that follows again replays all that was ever written, so there is little of that.
    for (const std::string servers :
         {"--store postgres --servers sync --freezes 1 --lease 2 --promotions 8 --rate 800",
          "--store postgres --servers async --lease 15 --promotions 8 --rate 800",
          "--store mysql --servers async --lease 15 --promotions 3 --rate 300"}) {
      result.push_back(
          {servers + " --mode ordered --kills 30 --seconds 25 --in-memory", {kPromotions}});
    }
    result.push_back(
        {"--store postgres --servers sync --mode ordered --kills 10 --freezes 4"
         " --lease 2 --seconds 20 --rate 800 --in-memory",
         {kFreezes}});
    return result;
  }();
  return all;
}

std::int64_t reached(const Goal& goal, std::span<const PastRun> runs) {
  std::int64_t total = 0;
  for (const std::string_view column : goal.columns) total += sum(runs, column);
  return total;
}

const Kind* next_kind(std::span<const PastRun> runs) {
  const auto furthest_behind = std::min_element(
      goals().begin(), goals().end(),
      [&](const Goal& a, const Goal& b) { return share(a, runs) < share(b, runs); });
  if (share(*furthest_behind, runs) >= 1) return nullptr;
  const Kind* least_played = nullptr;
  std::ptrdiff_t fewest = 0;
  for (const Kind& kind : kinds()) {
    if (std::find(kind.serves.begin(), kind.serves.end(), furthest_behind->name) ==
        kind.serves.end()) {
      continue;
    }
    const std::string description = description_of(kind);
    const auto played = std::count_if(runs.begin(), runs.end(), [&](const PastRun& run) {
      return run.text("run") == description;
    });
    if (least_played == nullptr || played < fewest) {
      least_played = &kind;
      fewest = played;
    }
  }
  return least_played;
}

std::string progress(std::span<const PastRun> runs) {
  std::ostringstream line;
  for (const Goal& goal : goals()) {
    line << (line.tellp() == 0 ? "" : ", ") << goal.name << " " << reached(goal, runs) << " of "
         << goal.target;
  }
  return line.str();
}

void print_totals(std::ostream& out, std::span<const PastRun> runs) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kColumns{
      {{"kills", "kills"},
       {"db kills", "server kills"},
       {"promotions", "promotions"},
       {"freezes", "freezes"},
       {"stops", "stops beyond the lease"},
       {"cut before", "commits cut before"},
       {"during", "commits cut during"},
       {"after", "commits cut after"},
       {"events", "committed"},
       {"repeats", "repeats"},
       {"db lost", "commits lost"},
       {"lost", "lost"},
       {"ghosts", "ghosts"},
       {"inversions", "order breaks"},
       {"owners", "double owners"},
       {"misreported", "misreported"},
       {"dead", "dead"}}};
  std::map<std::string, std::vector<PastRun>> rows;
  for (const PastRun& run : runs) {
    rows[run.text("store") + " " + run.text("servers") + " " + run.text("mode")].push_back(run);
  }
  const auto print = [&](const std::string& name, std::span<const PastRun> some) {
    out << std::left << std::setw(24) << name << std::right << std::setw(5) << some.size();
    for (const auto& [title, column] : kColumns) {
      out << std::setw(static_cast<int>(std::max<std::size_t>(title.size(), 7)) + 2)
          << sum(some, column);
    }
    out << std::setw(10) << std::count_if(some.begin(), some.end(), violated) << '\n';
  };
  out << std::left << std::setw(24) << "store, servers, mode" << std::right << std::setw(5)
      << "runs";
  for (const auto& [title, column] : kColumns) {
    out << std::setw(static_cast<int>(std::max<std::size_t>(title.size(), 7)) + 2) << title;
  }
  out << std::setw(10) << "violated" << '\n';
  for (const auto& [name, some] : rows) print(name, some);
  print("all", runs);
}

int run_campaign(const Settings& settings, std::ostream& out) {
  if (settings.record.empty()) throw std::invalid_argument("--long needs --record");
  const auto begin = SteadyClock::now();
  const auto over = [&] {
    return settings.minutes > 0 &&
           SteadyClock::now() - begin >= std::chrono::minutes{settings.minutes};
  };
  const std::string log = settings.record + ".log";
  std::vector<PastRun> runs = read_records(settings.record);
  out << "so far: " << runs.size() << " runs; " << progress(runs) << std::endl;
  int result = 0;
  while (const Kind* kind = over() ? nullptr : next_kind(runs)) {
    const std::string seed = std::to_string(std::random_device{}());
    out << "playing " << kind->arguments << " --seed " << seed << std::endl;
    std::vector<std::string> arguments = words_of(kind->arguments);
    arguments.insert(arguments.end(),
                     {"--seed", seed, "--record", settings.record, "--commit", settings.commit});
    if (!settings.evidence.empty()) {
      arguments.insert(arguments.end(), {"--evidence", settings.evidence});
    }
    std::filesystem::remove(log);
    const auto started = SteadyClock::now();
    harness::Process process(arguments, harness::append_to(log));
    const auto ended = process.wait(kLongestRun);
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(SteadyClock::now() - started).count();
    const std::size_t before = runs.size();
    runs = read_records(settings.record);
    if (ended == harness::ExitStatus{} && runs.size() == before + 1) {
      out << "clean after " << seconds << " s, run " << runs.size() << "; " << progress(runs)
          << std::endl;
      continue;
    }
    print_end(out, log);
    out << "VIOLATED, or it did not come to its end (" << (ended ? to_string(ended) : "it hangs")
        << "); what it said is in " << log << "\nplay it again: scripts/chaos " << kind->arguments
        << " --seed " << seed << std::endl;
    result = 1;
    break;
  }
  out << '\n';
  print_totals(out, runs);
  out << progress(runs) << '\n'
      << (next_kind(runs) == nullptr ? "all goals are reached"
                                     : "not all goals are reached: start it again to go on")
      << std::endl;
  return std::any_of(runs.begin(), runs.end(), violated) ? 1 : result;
}

}  // namespace outbox::chaos
