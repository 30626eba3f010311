// Chaos: see print_help() in settings.cc, or call it with --help.
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>

#include "campaign.h"
#include "roles.h"
#include "settings.h"
#include "supervisor.h"
#include "support/services.h"
#include "support/temporary_directory.h"

namespace outbox::chaos {
namespace {

bool as_expected(const Settings& settings, const harness::Verdict& verdict,
                 const Supervisor& supervisor) {
  if (!supervisor.violations().empty()) return false;
  if (settings.expect.empty()) return verdict.clean();
  const std::size_t limit = settings.expect == "duplicates" ? verdict.duplicate_bound : 0;
  return verdict.figure(settings.expect) > limit;
}

// Where what is left of the run is now.
std::filesystem::path keep(const Settings& settings, test::TemporaryDirectory& directory) {
  if (settings.evidence.empty()) {
    directory.keep();
    return directory.path();
  }
  const std::filesystem::path place =
      std::filesystem::path(settings.evidence) / ("seed-" + std::to_string(settings.seed));
  std::filesystem::create_directories(place);
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    if (entry.is_regular_file()) {
      std::filesystem::copy_file(entry.path(), place / entry.path().filename(),
                                 std::filesystem::copy_options::overwrite_existing);
    }
  }
  return place;
}

// What ctest takes for "skipped".
constexpr int kSkipped = 77;

int supervise(Settings settings) {
  if (settings.campaign) return run_campaign(settings, std::cout);
  if (has_server(settings) && !test::services_required()) {
    std::cout << "skipped: nobody said that servers may be started here; scripts/chaos and"
                 " scripts/test do, with OUTBOX_TEST_REQUIRE_SERVICES=1"
              << std::endl;
    return kSkipped;
  }
  // scripts/test sets it.
  const char* const record = std::getenv("OUTBOX_CHAOS_RECORD");
  if (settings.record.empty() && settings.servers != Servers::one && record != nullptr) {
    settings.record = record;
  }
  test::TemporaryDirectory directory;
  settings.directory = directory.path();
  std::optional<Surroundings> surroundings;
  if (has_server(settings)) {
    surroundings.emplace(settings);
    settings.url = surroundings->url();
    settings.direct_url = surroundings->direct_url();
  }
  std::cout << "chaos: " << to_string(settings.store)
            << (settings.servers == Servers::one ? "" : ", servers ")
            << (settings.servers == Servers::one ? "" : to_string(settings.servers)) << ", seed "
            << settings.seed << ", mode " << to_string(settings.mode) << ", " << settings.kills
            << " kills over " << settings.seconds.count() << " s"
            << (settings.binlog ? "" : ", without a binary log")
            << (settings.fault.empty() ? "" : ", with the fault " + settings.fault) << std::endl;
  Supervisor supervisor(settings, surroundings ? &*surroundings : nullptr, std::cout);
  const harness::Verdict verdict = supervisor.run();
  std::cout << verdict;
  const bool good = as_expected(settings, verdict, supervisor);
  if (settings.keep || !good) {
    std::cout << "kept: " << keep(settings, directory).string() << '\n';
  }
  std::cout << (good ? settings.expect.empty() ? "all is well" : "found, as it should be"
                : settings.expect.empty() ? "VIOLATED"
                                          : "NOT FOUND, the checker is blind")
            << std::endl;
  return good ? 0 : 1;
}

int run(const Settings& settings) {
  if (!settings.role) return supervise(settings);
  switch (*settings.role) {
    case harness::Role::writer:
      return run_writer(settings);
    case harness::Role::dispatcher:
      return run_dispatcher(settings);
    case harness::Role::receiver:
      break;
  }
  return run_receiver(settings);
}

}  // namespace
}  // namespace outbox::chaos

int main(int argc, char** argv) {
  try {
    const std::span arguments(argv + 1, static_cast<std::size_t>(argc > 0 ? argc - 1 : 0));
    const auto settings = outbox::chaos::parse_settings(arguments);
    if (settings.help) {
      outbox::chaos::print_help(std::cout);
      return 0;
    }
    return outbox::chaos::run(settings);
  } catch (const outbox::chaos::NotFetched& error) {
    std::cout << "skipped: " << error.what() << std::endl;
    return outbox::chaos::kSkipped;
  } catch (const std::invalid_argument& error) {
    std::cerr << "outbox_chaos: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "outbox_chaos: " << error.what() << '\n';
    return 1;
  }
}
