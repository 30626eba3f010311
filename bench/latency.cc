#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks.h"
#include "drain.h"
#include "events.h"
#include "outbox/outbox.h"

namespace outbox::bench {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kEvents = 1'000;
constexpr std::size_t kRateEvents = 300;
constexpr std::size_t kCpuEvents = 5'000;

// 500 events a second: a pace that no writer has to wait for, with a pause after each.
constexpr std::chrono::milliseconds kSteadyPeriod{2};

// CLOCK_MONOTONIC: the same for all processes.
std::int64_t now() { return steady_clock::now().time_since_epoch().count(); }

// When each commit returned and when each event arrived, in memory that is
// shared with a process forked off later.
class Times {
 public:
  explicit Times(std::size_t events) : events_(events) {
    void* memory =
        mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    times_ = static_cast<Pair*>(memory);
  }
  ~Times() { munmap(times_, bytes()); }
  Times(const Times&) = delete;
  Times& operator=(const Times&) = delete;

  void committed(std::size_t event) { times_[event].committed = now(); }
  void arrived(std::size_t event) {
    times_[event].arrived = now();
    count_.fetch_add(1, std::memory_order_release);
  }
  std::size_t count() const { return count_.load(std::memory_order_acquire); }

  // A listener may run before the commit's return has been noted, on another
  // core: that is no time at all.
  Samples micros() const {
    Samples result;
    for (const Pair& pair : std::span(times_, events_)) {
      result.push_back(std::max(0.0, static_cast<double>(pair.arrived - pair.committed) / 1'000));
    }
    return result;
  }

 private:
  struct Pair {
    std::int64_t committed;
    std::int64_t arrived;
  };
  std::size_t bytes() const { return events_ * sizeof(Pair); }

  const std::size_t events_;
  Pair* times_;
  std::atomic<std::size_t> count_{0};
};

// Called first after COMMIT, before the hook that starts the delivery.
class NoteCommit final : public WriterHook {
 public:
  explicit NoteCommit(Times& times) : times_(times) {}

  void after_commit(std::span<const Written> events) override {
    for (const Written& written : events) times_.committed(number_in(written.event.payload()));
  }

 private:
  Times& times_;
};

// Commits one event after the other at a steady pace; falling behind, it does
// not hurry to make up for it.
void write_at_pace(Writer& writer, std::size_t events, steady_clock::duration period) {
  for (std::size_t n = 0; n < events; ++n) {
    const auto next = steady_clock::now() + period;
    auto tx = writer.begin();
    tx.write(draft(n));
    tx.commit();
    std::this_thread::sleep_until(next);
  }
}

Listeners listening(Times& times) {
  Listeners on;
  on.add("Order", "Placed", [&times](const Event& e) { times.arrived(number_in(e.payload())); });
  return on;
}

void wait_for(const Times& times, std::size_t events) {
  const auto deadline = steady_clock::now() + std::chrono::minutes{1};
  while (times.count() < events) {
    if (steady_clock::now() > deadline) throw std::runtime_error("latency: events are missing");
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

// Not before the engine owns the table and has read it for the first time.
void settle(Outbox& box) {
  box.start();
  while (!box.owner()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  box.wait_idle(std::chrono::seconds{5});
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
}

struct Measured {
  Samples micros{};
  double server_cpu = 0;  // seconds, of all events
};

Measured in_process(Subject& subject, const std::string& path, std::size_t events,
                    steady_clock::duration period, Ordering ordering,
                    Progress progress = Progress::row) {
  Times times(events);
  double server_cpu = 0;
  {
    Outbox box(
        subject.open(path, {.progress = progress}), listening(times),
        {.ordering = ordering, .hooks = {std::make_shared<NoteCommit>(times)}, .log = kSilent});
    settle(box);
    const double before = subject.server_cpu();
    write_at_pace(box.writer(), events, period);
    wait_for(times, events);
    box.wait_idle(std::chrono::seconds{5});
    server_cpu = subject.server_cpu() - before;
  }
  return {times.micros(), server_cpu};
}

// The writer is forked off before this process has any thread or connection.
Samples across_processes(Subject& subject, const std::string& path, std::size_t events,
                         steady_clock::duration period) {
  Times times(events);
  int go[2];
  if (pipe(go) != 0) throw std::runtime_error("latency: pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("latency: fork");
  if (child == 0) {
    int status = EXIT_FAILURE;
    try {
      char byte = 0;
      if (read(go[0], &byte, 1) == 1) {
        Writer writer(subject.open(path), {.hooks = {std::make_shared<NoteCommit>(times)}});
        write_at_pace(writer, events, period);
        status = EXIT_SUCCESS;
      }
    } catch (const std::exception& error) {
      note(error.what());
    }
    _exit(status);
  }
  int status = 0;
  {
    Outbox box(subject.open(path), listening(times), {.log = kSilent});
    settle(box);
    if (write(go[1], "g", 1) != 1) throw std::runtime_error("latency: pipe");
    waitpid(child, &status, 0);
    if (status == 0) wait_for(times, events);
  }
  close(go[0]);
  close(go[1]);
  if (status != 0) throw std::runtime_error("latency: the writing process failed");
  return times.micros();
}

// What the machine itself takes to wake a waiting thread at this pace: the
// commits are bare, and all that follows is a condition variable.
Samples bare_wake_up(Subject& subject, const std::string& path, std::size_t events,
                     steady_clock::duration period) {
  Times times(events);
  const std::unique_ptr<BareWriter> writer = subject.writer(path);
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t ready = 0;
  std::jthread listener([&] {
    for (std::size_t n = 0; n < events; ++n) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return ready > n; });
      times.arrived(n);
    }
  });
  for (std::size_t n = 0; n < events; ++n) {
    const auto next = steady_clock::now() + period;
    writer->write(n);
    times.committed(n);
    {
      const std::lock_guard lock(mutex);
      ++ready;
    }
    changed.notify_one();
    std::this_thread::sleep_until(next);
  }
  listener.join();
  return times.micros();
}

double commit_rate(Subject& subject, std::size_t transactions) {
  const std::string database = subject.fresh();
  double seconds = 0;
  {
    const std::unique_ptr<BareWriter> writer = subject.writer(database);
    seconds = seconds_of([&] {
      for (std::size_t n = 0; n < transactions; ++n) writer->write(n);
    });
  }
  subject.remove(database);
  return static_cast<double>(transactions) / seconds;
}

}  // namespace

void latency(const Settings& settings, Subject& subject, Report& report) {
  report.begin("latency",
               "from COMMIT's return to the listener, at half the commit rate or as said");
  const std::size_t events = settings.size(kEvents);
  const Bars bars = subject.bars();
  const std::optional<Bar> p99 = at_most(bars.in_process_p99);
  steady_clock::duration period{};

  struct Case {
    std::string name;
    std::function<Samples(const std::string&)> measure;
    std::optional<Bar> p50;
    std::optional<Bar> p99;
    Samples p50s{};
    Samples p99s{};
  };
  const auto ordered = [&](const std::string& path) {
    return in_process(subject, path, events, period, Ordering::per_aggregate).micros;
  };
  std::vector<Case> cases{
      {"waking a thread (control)",
       [&](const std::string& path) { return bare_wake_up(subject, path, events, period); },
       std::nullopt, std::nullopt},
      {"ordered", ordered, at_most(bars.ordered_p50), p99},
      {"ordered, again (control)", ordered, std::nullopt, std::nullopt},
      {"ordering none",
       [&](const std::string& path) {
         return in_process(subject, path, events, period, Ordering::none).micros;
       },
       at_most(bars.unordered_p50), p99},
      {"from another process",
       [&](const std::string& path) { return across_processes(subject, path, events, period); },
       at_most(bars.process_p50), std::nullopt},
      {"from another process, 500/s",
       [&](const std::string& path) {
         return across_processes(subject, path, events, kSteadyPeriod);
       },
       at_most(bars.steady_process_p50), at_most(bars.steady_process_p99)},
  };
  std::vector<Variant> variants;
  for (Case& one : cases) {
    variants.push_back({one.name, [&] {
                          const std::string path = subject.fresh();
                          const Samples micros = one.measure(path);
                          subject.remove(path);
                          one.p50s.push_back(median(micros));
                          one.p99s.push_back(quantile(micros, 0.99));
                          return one.p50s.back();
                        }});
  }
  Samples rates;
  for (int round = 0; round < settings.rounds; ++round) {
    rates.push_back(commit_rate(subject, settings.size(kRateEvents, 3)));
    period = std::chrono::duration_cast<steady_clock::duration>(
        std::chrono::duration<double>(2 / rates.back()));
    std::rotate(variants.begin(), variants.begin() + 1, variants.end());
    interleave(variants, 1);
  }
  report.add("bare commits", rates, "commits/s");
  for (const Case& one : cases) {
    report.add(one.name + ", p50", one.p50s, "us", one.p50);
    report.add(one.name + ", p99", one.p99s, "us", one.p99);
  }
  report.print();
}

namespace {

// Without the library, and without anybody who delivers.
double server_cpu_of_inserts(Subject& subject, const std::string& path, std::size_t events) {
  const std::unique_ptr<BareWriter> writer = subject.writer(path);
  const double before = subject.server_cpu();
  for (std::size_t n = 0; n < events; ++n) {
    const auto next = steady_clock::now() + kSteadyPeriod;
    writer->write(n);
    std::this_thread::sleep_until(next);
  }
  return subject.server_cpu() - before;
}

}  // namespace

void server_cpu(const Settings& settings, Subject& subject, Report& report) {
  report.begin("server_cpu", "what the server works for 10,000 events, of which 500 come a second");
  const std::size_t events = settings.size(kCpuEvents);
  const double to_10_000 = 10'000 / static_cast<double>(events);
  Samples p50s;
  const auto on_fresh = [&](auto measure) {
    return [&, measure] {
      const std::string path = subject.fresh();
      const double cpu = measure(path);
      subject.remove(path);
      return cpu * to_10_000;
    };
  };
  const auto ours = [&](Ordering ordering, Samples* p50, Progress progress = Progress::row) {
    return on_fresh([&, ordering, p50, progress](const std::string& path) {
      const Measured measured =
          in_process(subject, path, events, kSteadyPeriod, ordering, progress);
      if (p50 != nullptr) p50->push_back(median(measured.micros));
      return measured.server_cpu;
    });
  };
  Samples p50s_by_position;
  std::vector<Variant> variants{
      {"ordered", ours(Ordering::per_aggregate, &p50s)},
      {"ordering none", ours(Ordering::none, nullptr)},
      {"inserts alone", on_fresh([&](const std::string& path) {
         return server_cpu_of_inserts(subject, path, events);
       })},
  };
  const std::vector<Trait> traits = subject.traits();
  const bool by_position = std::find(traits.begin(), traits.end(), Trait::position) != traits.end();
  if (by_position) {
    variants.push_back({"ordered, by position",
                        ours(Ordering::per_aggregate, &p50s_by_position, Progress::position)});
  }
  const std::vector<Samples> seconds = interleave(variants, settings.rounds);
  report.add("ordered", seconds[0], "s", at_most(4.2));
  report.add("ordered, p50", p50s, "us");
  report.add("ordering none", seconds[1], "s");
  report.add("inserts alone", seconds[2], "s");
  if (by_position) {
    report.add("ordered, by position", seconds[3], "s");
    report.add("ordered, by position, p50", p50s_by_position, "us");
    report.add("ordered, by position / ordered", ratio(seconds[3], seconds[0]), "ratio",
               at_most(0.6));
  }
  report.print();
}

}  // namespace outbox::bench
