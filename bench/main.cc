// outbox_bench: how fast the library is, against what its database can do.
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "benchmarks.h"
#include "harness.h"
#include "subject.h"

namespace outbox::bench {
namespace {

// Some stores have no use for a benchmark.
enum class On { both, sqlite, postgres };

struct Benchmark {
  std::string_view name;
  void (*run)(const Settings&, Subject&, Report&);
  On on = On::both;
};

constexpr std::array kBenchmarks{
    Benchmark{"drain_keep", drain_keep},
    Benchmark{"drain_delete", drain_delete},
    Benchmark{"row_claims", row_claims, On::postgres},
    Benchmark{"instances", instances, On::postgres},
    Benchmark{"keep_up", keep_up, On::postgres},
    Benchmark{"latency", latency},
    Benchmark{"write", write_one},
    Benchmark{"write_at_commit", write_at_commit, On::postgres},
    Benchmark{"write_all", write_all, On::postgres},
    Benchmark{"notify", notify, On::postgres},
    Benchmark{"engine", engine, On::sqlite},
    Benchmark{"poll_cost", poll_cost},
};

constexpr const char* kUsage =
    "usage: outbox_bench [sqlite|postgres] [--rounds N] [--quick] [--only NAME] [--output FILE]\n"
    "\n"
    "  --rounds N     measure everything N times (5)\n"
    "  --quick        small sizes and 3 rounds: to see that it works\n"
    "  --only NAME    drain_keep, drain_delete, latency, write or poll_cost; on SQLite also\n"
    "                 engine; on PostgreSQL also row_claims, instances, keep_up,\n"
    "                 write_at_commit, write_all or notify\n"
    "  --output FILE  where the figures are saved (bench/results/STORE.jsonl; with\n"
    "                 --only NAME bench/results/STORE_NAME.jsonl)\n"
    "\n"
    "PostgreSQL is the server that OUTBOX_TEST_POSTGRES names.\n";

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
    if ((option == "sqlite" || option == "postgres") && i == 1) {
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

bool concerns(const Benchmark& benchmark, const Settings& settings) {
  if (benchmark.on != On::both && (benchmark.on == On::sqlite) != (settings.store == "sqlite")) {
    return false;
  }
  return settings.only.empty() || benchmark.name == settings.only;
}

std::unique_ptr<Subject> subject_of(const Settings& settings) {
  if (settings.store == "sqlite") return sqlite_subject();
#ifdef OUTBOX_WITH_POSTGRES
  return postgres_subject();
#else
  throw UsageError("this benchmark was built without PostgreSQL");
#endif
}

void run(const Settings& settings) {
  const std::unique_ptr<Subject> subject = subject_of(settings);
  Report report(subject->name());
  std::printf("%s\n", subject->about().c_str());
  std::printf("payloads of 200 bytes, %d rounds\n", settings.rounds);
  bool found = false;
  for (const Benchmark& benchmark : kBenchmarks) {
    if (!concerns(benchmark, settings)) continue;
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
