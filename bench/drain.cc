#include "drain.h"

#include <atomic>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bare.h"
#include "benchmarks.h"
#include "harness.h"
#include "loops.h"
#include "outbox/sqlite.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kBacklog = 50'000;

// The naive loop waits for the disk once an event: enough to be measured.
constexpr std::size_t kNaiveEvents = 1'000;

constexpr std::size_t kLargeBatch = 500;

// Measures on a copy of the backlog of its own, and deletes it.
template <class Measure>
Variant on_copy(std::string name, Scratch& scratch, const std::string& backlog, std::size_t events,
                Measure seconds) {
  return {std::move(name), [=, &scratch] {
            const std::string path = scratch.copy(backlog);
            const double rate = static_cast<double>(events) / seconds(path);
            Scratch::remove(path);
            return rate;
          }};
}

Variant ours(std::string name, Scratch& scratch, const std::string& backlog, std::size_t events,
             sqlite::OnDone on_done, Options options) {
  return on_copy(std::move(name), scratch, backlog, events, [=](const std::string& path) {
    return drain_ours(sqlite::open(path, {.on_done = on_done}), events, options);
  });
}

void drain(const Settings& settings, Scratch& scratch, Report& report, sqlite::OnDone on_done) {
  const bool keep = on_done == sqlite::OnDone::keep;
  report.begin(keep ? "drain_keep" : "drain_delete",
               keep ? "a backlog of 1,000 aggregates, delivered and marked DONE"
                    : "the same, deleted on completion");
  const std::size_t events = settings.size(kBacklog);
  const std::size_t naive_events = settings.size(kNaiveEvents);
  const std::string backlog = make_backlog(scratch, events);
  const Finish finish = keep ? Finish::update : Finish::remove;
  const auto limit = [&](std::string name) {
    return on_copy(std::move(name), scratch, backlog, events,
                   [=](const std::string& path) { return drain_limit(path, events, finish); });
  };

  enum { kLimit, kLimitAgain, kOurs, kOursLarge, kOursUnordered, kNaive };
  std::vector<Variant> variants{
      limit("limit"),
      limit("limit, again"),
      ours("ours", scratch, backlog, events, on_done, {}),
      ours("ours, batch 500", scratch, backlog, events, on_done, {.batch = kLargeBatch}),
      ours("ours, ordering none", scratch, backlog, events, on_done, {.ordering = Ordering::none}),
  };
  if (keep) {
    variants.push_back(on_copy("naive", scratch, backlog, naive_events,
                               [=](const auto& path) { return drain_naive(path, naive_events); }));
  }
  const std::vector<Samples> rates = interleave(variants, settings.rounds);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    report.add(variants[i].name, rates[i], "events/s");
  }
  report.add("limit again / limit (control)", ratio(rates[kLimitAgain], rates[kLimit]), "ratio");
  report.add("ours / limit", ratio(rates[kOurs], rates[kLimit]), "ratio", at_least(0.6));
  report.add("ours, batch 500 / limit", ratio(rates[kOursLarge], rates[kLimit]), "ratio");
  report.add("ours, ordering none / limit", ratio(rates[kOursUnordered], rates[kLimit]), "ratio");
  if (keep) report.add("ours / naive", ratio(rates[kOurs], rates[kNaive]), "ratio", at_least(20));
  report.print();
  Scratch::remove(backlog);
}

}  // namespace

double drain_ours(std::shared_ptr<Store> store, std::size_t events, Options options) {
  std::atomic<std::size_t> delivered = 0;
  Listeners on;
  on.add("Order", "Placed",
         [&](const Event&) { delivered.fetch_add(1, std::memory_order_relaxed); });
  options.log = [](LogLevel, std::string_view) {};
  Outbox box(std::move(store), std::move(on), std::move(options));
  const double seconds = seconds_of([&] {
    box.start();
    if (!box.wait_idle(std::chrono::minutes{5})) throw std::runtime_error("drain: not idle");
  });
  box.close();
  if (delivered != events) {
    throw std::runtime_error("drain: " + std::to_string(delivered) + " deliveries of " +
                             std::to_string(events) + " events");
  }
  return seconds;
}

std::string make_backlog(Scratch& scratch, std::size_t events) {
  const std::string path = scratch.fresh();
  fill(path, {.rows = events});
  return path;
}

void drain_keep(const Settings& settings, Scratch& scratch, Report& report) {
  drain(settings, scratch, report, sqlite::OnDone::keep);
}

void drain_delete(const Settings& settings, Scratch& scratch, Report& report) {
  drain(settings, scratch, report, sqlite::OnDone::remove);
}

}  // namespace outbox::bench
