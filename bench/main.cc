// outbox_bench: how fast the library is, against what its database can do.
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "benchmarks.h"
#include "harness.h"
#include "scratch.h"

namespace outbox::bench {
namespace {

struct Benchmark {
  std::string_view name;
  void (*run)(const Settings&, Scratch&, Report&);
};

constexpr std::array kBenchmarks{
    Benchmark{"drain_keep", drain_keep}, Benchmark{"drain_delete", drain_delete},
    Benchmark{"latency", latency},       Benchmark{"write", write_one},
    Benchmark{"engine", engine},         Benchmark{"poll_cost", poll_cost},
};

constexpr const char* kUsage =
    "usage: outbox_bench [sqlite] [--rounds N] [--quick] [--only NAME] [--output FILE]\n"
    "\n"
    "  --rounds N     measure everything N times (5)\n"
    "  --quick        small sizes and 3 rounds: to see that it works\n"
    "  --only NAME    drain_keep, drain_delete, latency, write, engine or poll_cost\n"
    "  --output FILE  where the figures are saved (bench/results/sqlite.jsonl; with\n"
    "                 --only NAME bench/results/sqlite_NAME.jsonl)\n";

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

Settings parse(int argc, char** argv) {
  Settings settings;
  bool rounds_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const auto value = [&]() -> std::string_view {
      if (++i == argc) throw UsageError(std::string(option) + " needs a value");
      return argv[i];
    };
    if (option == "sqlite" && i == 1) {
      continue;
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
    settings.output = "bench/results/sqlite" + part + ".jsonl";
  }
  return settings;
}

void run(const Settings& settings) {
  Scratch scratch;
  Report report("sqlite");
  std::printf("databases in %s; synchronous = FULL, payloads of 200 bytes, %d rounds\n",
              scratch.folder().c_str(), settings.rounds);
  std::printf("a 4 KiB write with fdatasync takes %.0f us there\n", scratch.sync_cost());
  bool found = false;
  for (const Benchmark& benchmark : kBenchmarks) {
    if (!settings.only.empty() && benchmark.name != settings.only) continue;
    found = true;
    benchmark.run(settings, scratch, report);
  }
  if (!found) throw UsageError("there is no benchmark '" + settings.only + "'");
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
