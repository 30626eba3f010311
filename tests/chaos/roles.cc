#include "roles.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness/process.h"
#include "harness/receiver.h"
#include "outbox/clock.h"
#include "outbox/outbox.h"
#include "workload.h"

namespace outbox::chaos {
namespace {

using namespace std::chrono_literals;

// --- The writer ---

constexpr int kThreads = 3;

WorkloadOptions options_of(const Settings& settings, int thread) {
  return {.rollbacks = path_of(kRollbacks, settings, thread),
          .outcomes = path_of(kOutcomes, settings, thread),
          .attempts = path_of(kAttempts, settings, thread),
          .seed = settings.seed * 1'000'003 +
                  static_cast<std::uint64_t>(settings.incarnation * 16 + thread)};
}

// --- The dispatcher ---

// For the receiver: longer than any stop, and than a restart on a busy machine.
constexpr std::chrono::seconds kPatience{20};

// A host whose time of day is mostly wrong: it steps every second, by up to a day either way.
// Thread-safe.
class SteppingClock final : public Clock {
 public:
  Time now() const override {
    using std::chrono::hours;
    using std::chrono::seconds;
    constexpr std::array<seconds, 6> kErrors{seconds{0}, hours{1},    seconds{-5},
                                             hours{-24}, seconds{20}, hours{24}};
    const auto second = std::chrono::floor<seconds>(steady().time_since_epoch()).count();
    return host_clock().now() + kErrors[static_cast<std::size_t>(second) % kErrors.size()];
  }
  Steady steady() const override { return host_clock().steady(); }
};

// Hands events to the receiver, and fails now and then before it does: an
// attempt that failed has delivered nothing, so that it adds no duplicate.
class Deliverer {
 public:
  explicit Deliverer(const Settings& settings)
      : client_(socket_path(settings.directory), kPatience),
        process_(settings.incarnation),
        seed_(settings.seed * 7'919 + static_cast<std::uint64_t>(settings.incarnation)) {}

  Outcome operator()(const Event& event, const Delivery& delivery) {
    const int luck = static_cast<int>(roll() % 100);
    if (luck < 3) throw std::runtime_error("a failure on purpose");
    if (luck < 4) return Outcome::retry_after(5ms);
    const Movement movement = parse_payload(event.payload());
    client_.deliver({.id = event.id(),
                     .aggregate = event.aggregate_id(),
                     .number = movement.number,
                     .epoch = delivery.epoch,
                     .process = process_,
                     .attempt = delivery.attempt});
    return Outcome::done();
  }

 private:
  std::uint64_t roll() {
    std::mt19937_64 generator(seed_ + 104'729 * calls_.fetch_add(1));
    return generator();
  }

  harness::Client client_;
  const int process_;
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> calls_{0};
};

// Locks of rows that have expired are found by polling.
std::chrono::milliseconds poll_interval(const Settings& settings, const Database& database) {
  const std::chrono::milliseconds interval = database.poll_interval();
  return settings.mode == Mode::claims ? std::min<std::chrono::milliseconds>(interval, 1s)
                                       : interval;
}

Options options_of(const Settings& settings, const Database& database) {
  const bool claims = settings.mode == Mode::claims;
  const bool shared = claims || has_server(settings);
  return {.mode = shared ? outbox::Mode::multi_node : outbox::Mode::single_node,
          .workers = kWorkers,
          .ordering = settings.mode == Mode::ordered ? Ordering::per_aggregate : Ordering::none,
          .poll_interval = poll_interval(settings, database),
          .row_claims = claims,
          .queue = {.hot_capacity = kHotCapacity, .cold_capacity = kColdCapacity, .batch = 20},
          .retry = {.policy = std::make_shared<ExponentialBackoff>(
                        ExponentialBackoffOptions{.base = 5ms, .max = 50ms})},
          .breaker = {.pause = 10ms, .max_pause = 100ms},
          .lease = {.duration = settings.lease, .claim = lock_timeout(settings)},
          .log = standard_error_log(LogLevel::info)};
}

}  // namespace

int run_writer(const Settings& settings) {
  harness::Signals signals{SIGTERM, SIGUSR1};
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

int run_dispatcher(const Settings& settings) {
  harness::Signals signals{SIGTERM, SIGUSR1};
  const SteppingClock wrong_clock;
  const auto database = database_of(settings, settings.wrong_clock ? &wrong_clock : nullptr);
  const auto sound = open_patiently(*database);
  const std::shared_ptr<Store> store =
      settings.fault.empty() ? sound : std::make_shared<FaultyStore>(sound, settings.faults);
  const auto deliverer = std::make_shared<Deliverer>(settings);
  Listeners on;
  on.add(kAggregateType, kEventType, [deliverer](const Event& event, const Delivery& delivery) {
    return (*deliverer)(event, delivery);
  });
  Outbox box{store, on, options_of(settings, *database)};
  box.start();

  std::jthread application([&](const std::stop_token& stop) {
    const WorkloadOptions options{
        .rollbacks = path_of(kRollbacks, settings, 0),
        .outcomes = path_of(kOutcomes, settings, 0),
        .attempts = path_of(kAttempts, settings, 0),
        .seed = settings.seed * 999'983 + static_cast<std::uint64_t>(settings.incarnation),
        .delays = !settings.wrong_clock};
    Workload(box.writer(), connect_patiently(*database, *sound), options).run(stop);
    const harness::Ledger finished(path_of(kFinished, settings, 0));
  });
  while (signals.wait() != SIGTERM) application.request_stop();
  application.request_stop();
  application.join();
  box.close();
  return 0;
}

int run_receiver(const Settings& settings) {
  const harness::Signals stop;
  harness::Receiver(
      {.ledger = ledger_path(settings.directory), .socket = socket_path(settings.directory)})
      .serve(stop);
  return 0;
}

}  // namespace outbox::chaos
