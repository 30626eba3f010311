#include <memory>
#include <thread>
#include <vector>

#include "role_signals.h"
#include "roles.h"
#include "workload.h"

namespace outbox::chaos {
namespace {

constexpr int kThreads = 3;

}  // namespace

int run_writer(const Settings& settings) {
  const RoleSignals signals;
  const std::string database = database_path(settings.directory);
  const auto store = sqlite::open(database, {.durability = sqlite::Durability::normal});
  Writer writer{store};
  {
    std::vector<std::jthread> threads;
    for (int n = 0; n < kThreads; ++n) {
      const std::uint64_t seed =
          settings.seed * 1'000'003 + static_cast<std::uint64_t>(settings.incarnation * 16 + n);
      threads.emplace_back([&, n, seed](const std::stop_token& stop) {
        Workload(writer, *store, database, rollbacks_path(settings, n), seed).run(stop);
      });
    }
    while (signals.wait() != SIGTERM) {
    }
  }
  return 0;
}

}  // namespace outbox::chaos
