#include <memory>
#include <thread>
#include <vector>

#include "role_signals.h"
#include "roles.h"
#include "workload.h"

namespace outbox::chaos {
namespace {

constexpr int kThreads = 3;

WorkloadOptions options_of(const Settings& settings, int thread) {
  return {.rollbacks = path_of(kRollbacks, settings, thread),
          .outcomes = path_of(kOutcomes, settings, thread),
          .attempts = path_of(kAttempts, settings, thread),
          .seed = settings.seed * 1'000'003 +
                  static_cast<std::uint64_t>(settings.incarnation * 16 + thread)};
}

}  // namespace

int run_writer(const Settings& settings) {
  const RoleSignals signals;
  const auto database = database_of(settings);
  const auto store = open_patiently(*database);
  Writer writer{store};
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads + 2);
    for (int n = 0; n < kThreads; ++n) {
      threads.emplace_back([&, n](const std::stop_token& stop) {
        Workload(writer, connect_patiently(*database, *store), options_of(settings, n)).run(stop);
      });
    }
    if (!settings.direct_url.empty()) {
      // Around the network: a cut would end every transaction that takes its time.
      threads.emplace_back([&](const std::stop_token& stop) {
        const auto direct = database_of(around_the_network(settings));
        Workload(writer, connect_patiently(*direct, *store), options_of(settings, kThreads))
            .run_slowly(stop);
      });
    }
    if (settings.rate > 0) {
      threads.emplace_back([&](const std::stop_token& stop) {
        Workload(writer, connect_patiently(*database, *store), options_of(settings, kThreads + 1))
            .run_in_bulk(stop, settings.rate);
      });
    }
    while (signals.wait() != SIGTERM) {
    }
  }
  return 0;
}

}  // namespace outbox::chaos
