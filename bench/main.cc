// outbox_bench: how fast the library is, against what its database can do.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks.h"
#include "harness.h"
#include "subject.h"

namespace outbox::bench {
namespace {

struct Known {
  std::string_view store;
  std::unique_ptr<Subject> (*subject)();
};

constexpr std::array kStores{
    Known{"sqlite", sqlite_subject},
#ifdef OUTBOX_WITH_POSTGRES
    Known{"postgres", postgres_subject},
#endif
#ifdef OUTBOX_WITH_MYSQL
    Known{"mysql", mysql_subject},
#endif
};

struct Benchmark {
  std::string_view name;
  void (*run)(const Settings&, Subject&, Report&);
  std::optional<Trait> of{};
};

constexpr std::array kBenchmarks{
    Benchmark{"drain_keep", drain_keep},
    Benchmark{"drain_delete", drain_delete},
    Benchmark{"drain_position", drain_position, Trait::position},
    Benchmark{"row_claims", row_claims, Trait::server},
    Benchmark{"instances", instances, Trait::server},
    Benchmark{"keep_up", keep_up, Trait::server},
    Benchmark{"latency", latency},
    Benchmark{"write", write_one},
    Benchmark{"write_with_business", write_with_business, Trait::insert_at_commit},
    Benchmark{"write_at_commit", write_at_commit, Trait::insert_at_commit},
    Benchmark{"write_all", write_all, Trait::server},
    Benchmark{"notify", notify, Trait::notify},
    Benchmark{"server_cpu", server_cpu, Trait::server_cpu},
    Benchmark{"inbox", inbox},
    Benchmark{"engine", engine, Trait::embedded},
    Benchmark{"poll_cost", poll_cost},
};

constexpr const char* kUsage =
    "usage: outbox_bench [sqlite|postgres|mysql] [--rounds N] [--quick] [--only NAME]\n"
    "                    [--output FILE]\n"
    "\n"
    "  --rounds N     measure everything N times (5)\n"
    "  --quick        small sizes and 3 rounds: to see that it works\n"
    "  --only NAME    drain_keep, drain_delete, latency, write, inbox or poll_cost; on SQLite\n"
    "                 also engine; on a server also row_claims, instances, keep_up or write_all;\n"
    "                 on PostgreSQL also drain_position, write_with_business,\n"
    "                 write_at_commit, notify or server_cpu\n"
    "  --output FILE  where the figures are saved (bench/results/STORE.jsonl; with\n"
    "                 --only NAME bench/results/STORE_NAME.jsonl)\n"
    "\n"
    "The servers are those that OUTBOX_TEST_POSTGRES and OUTBOX_TEST_MYSQL name.\n";

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

int positive(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1) {
    throw UsageError("--rounds needs a positive number, got '" + std::string(text) + "'");
  }
  return number;
}

const Known* find_store(std::string_view name) {
  const auto* found = std::find_if(kStores.begin(), kStores.end(),
                                   [&](const Known& known) { return known.store == name; });
  return found == kStores.end() ? nullptr : found;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  bool rounds_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const auto value = [&]() -> std::string_view {
      if (++i == argc) throw UsageError(std::string(option) + " needs a value");
      return argv[i];
    };
    if (i == 1 && find_store(option) != nullptr) {
      settings.store = option;
    } else if (option == "--rounds") {
      settings.rounds = positive(value());
      rounds_given = true;
    } else if (option == "--quick") {
      settings.quick = true;
    } else if (option == "--only") {
      settings.only = value();
    } else if (option == "--output") {
      settings.output = value();
    } else {
      throw UsageError("unknown argument '" + std::string(option) + "'");
    }
  }
  if (settings.quick && !rounds_given) settings.rounds = 3;
  if (settings.output.empty()) {
    const std::string part = settings.only.empty() ? "" : "_" + settings.only;
    settings.output = "bench/results/" + settings.store + part + ".jsonl";
  }
  return settings;
}

bool concerns(const Benchmark& benchmark, const Settings& settings, const Subject& subject) {
  const std::vector<Trait> traits = subject.traits();
  if (benchmark.of && std::find(traits.begin(), traits.end(), *benchmark.of) == traits.end()) {
    return false;
  }
  return settings.only.empty() || benchmark.name == settings.only;
}

void run(const Settings& settings) {
  const std::unique_ptr<Subject> subject = find_store(settings.store)->subject();
  Report report(subject->name());
  std::printf("%s\n", subject->about().c_str());
  std::printf("payloads of 200 bytes, %d rounds\n", settings.rounds);
  bool found = false;
  for (const Benchmark& benchmark : kBenchmarks) {
    if (!concerns(benchmark, settings, *subject)) continue;
    found = true;
    benchmark.run(settings, *subject, report);
  }
  if (!found) {
    throw UsageError("there is no benchmark '" + settings.only + "' of " + settings.store);
  }
  std::printf("\n");
  report.print_missed();
  report.save(settings.output);
  std::printf("saved in %s\n", settings.output.c_str());
}

}  // namespace
}  // namespace outbox::bench

int main(int argc, char** argv) {
  try {
    outbox::bench::run(outbox::bench::parse(argc, argv));
    return EXIT_SUCCESS;
  } catch (const outbox::bench::UsageError& error) {
    std::fprintf(stderr, "outbox_bench: %s\n\n%s", error.what(), outbox::bench::kUsage);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "outbox_bench: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
