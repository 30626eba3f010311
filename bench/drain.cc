#include "drain.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "benchmarks.h"
#include "events.h"
#include "outbox/memory.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kBacklog = 50'000;

// The naive loop waits for the disk once an event: enough to be measured.
constexpr std::size_t kNaiveEvents = 1'000;

constexpr std::size_t kLargeBatch = 500;

void drain(const Settings& settings, Subject& subject, Report& report, Finish finish) {
  const bool keep = finish == Finish::update;
  report.begin(keep ? "drain_keep" : "drain_delete",
               keep ? "a backlog of 1,000 aggregates, delivered and updated to DONE"
                    : "the same, deleted on completion");
  const std::size_t events = settings.size(kBacklog);
  const std::size_t naive_events = settings.size(kNaiveEvents);
  const std::string backlog = make_backlog(subject, events);
  const auto limit = [&](std::string name) {
    return on_copy(std::move(name), subject, backlog, events, [&, finish](const auto& database) {
      return subject.drain_limit(database, events, finish);
    });
  };
  const auto ours = [&](std::string name, const Options& options) {
    return on_copy(std::move(name), subject, backlog, events,
                   [&, options, finish](const auto& database) {
                     return drain_ours(subject.open(database, {.finish = finish}), events, options);
                   });
  };

  enum { kLimit, kLimitAgain, kOurs, kOursLarge, kOursUnordered, kNaive };
  std::vector<Variant> variants{
      limit("limit"),
      limit("limit, again"),
      ours("ours", {}),
      ours("ours, batch 500", {.queue = {.batch = kLargeBatch}}),
      ours("ours, ordering none", {.ordering = Ordering::none}),
  };
  if (keep) {
    variants.push_back(on_copy("naive", subject, backlog, naive_events, [&](const auto& database) {
      return subject.drain_naive(database, naive_events);
    }));
  }
  const std::vector<Samples> rates = interleave(variants, settings.rounds);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    report.add(variants[i].name, rates[i], "events/s");
  }
  report.add("limit again / limit (control)", ratio(rates[kLimitAgain], rates[kLimit]), "ratio");
  report.add("ours / limit", ratio(rates[kOurs], rates[kLimit]), "ratio",
             at_least(keep ? subject.bars().drain_keep : subject.bars().drain_delete));
  report.add("ours, batch 500 / limit", ratio(rates[kOursLarge], rates[kLimit]), "ratio");
  report.add("ours, ordering none / limit", ratio(rates[kOursUnordered], rates[kLimit]), "ratio");
  if (keep) {
    report.add("ours / naive", ratio(rates[kOurs], rates[kNaive]), "ratio",
               at_least(subject.bars().drain_naive));
  }
  report.print();
  subject.remove(backlog);
}

// It takes as long as the other ones, although it is faster.
constexpr std::size_t kPositionBacklog = 200'000;
constexpr std::size_t kSingleEvents = 2'000;

// What an event costs the database's log that is written in a transaction of its own, and
// delivered.
double bytes_of_each(Subject& subject, std::size_t events, Progress progress) {
  const std::string database = subject.fresh();
  const std::shared_ptr<Store> store = subject.open(database, {.progress = progress});
  const double before = subject.logged(database);
  Writer writer(store);
  for (std::size_t n = 0; n < events; ++n) {
    auto tx = writer.begin();
    tx.write(draft(n));
    tx.commit();
  }
  drain_ours(store, events, {});
  const double bytes = subject.logged(database) - before;
  subject.remove(database);
  return bytes / static_cast<double>(events);
}

constexpr std::size_t kEvents = 50'000;
constexpr std::size_t kAtOnce = 1'000;

// The same events as fill() writes.
std::shared_ptr<Store> memory_backlog(std::size_t events) {
  const std::shared_ptr<Store> store = memory::open();
  Writer writer(store);
  for (std::size_t first = 0; first < events; first += kAtOnce) {
    std::vector<Draft> drafts;
    for (std::size_t n = first; n < first + kAtOnce; ++n) drafts.push_back(draft(n));
    auto tx = writer.begin();
    tx.write_all(std::move(drafts));
    tx.commit();
  }
  return store;
}

}  // namespace

Listeners counting(std::atomic<std::size_t>& delivered) {
  Listeners on;
  on.add("Order", "Placed",
         [&](const Event&) { delivered.fetch_add(1, std::memory_order_relaxed); });
  return on;
}

void check_delivered(std::size_t delivered, std::size_t events) {
  if (delivered == events) return;
  throw std::runtime_error("drain: " + std::to_string(delivered) + " deliveries of " +
                           std::to_string(events) + " events");
}

double drain_ours(std::shared_ptr<Store> store, std::size_t events, Options options) {
  std::atomic<std::size_t> delivered = 0;
  options.log = kSilent;
  Outbox box(std::move(store), counting(delivered), std::move(options));
  const double seconds = seconds_of([&] {
    box.start();
    if (!box.wait_idle(std::chrono::minutes{5})) throw std::runtime_error("drain: not idle");
  });
  box.close();
  check_delivered(delivered, events);
  return seconds;
}

Variant on_copy(std::string name, Subject& subject, const std::string& backlog, std::size_t events,
                std::function<double(const std::string& database)> seconds) {
  return {std::move(name), [&subject, backlog, events, seconds = std::move(seconds)] {
            const std::string database = subject.copy(backlog);
            const double rate = static_cast<double>(events) / seconds(database);
            subject.remove(database);
            return rate;
          }};
}

std::string make_backlog(Subject& subject, std::size_t events, Progress progress) {
  const std::string database = subject.fresh();
  subject.fill(database, {.rows = events, .progress = progress});
  subject.tidy_up(database);
  return database;
}

void drain_keep(const Settings& settings, Subject& subject, Report& report) {
  drain(settings, subject, report, Finish::update);
}

void drain_delete(const Settings& settings, Subject& subject, Report& report) {
  drain(settings, subject, report, Finish::remove);
}

void drain_position(const Settings& settings, Subject& subject, Report& report) {
  report.begin("drain_position", "a backlog of 1,000 aggregates, delivered by position and by row");
  const std::size_t events = settings.size(kPositionBacklog);
  const std::string by_position = make_backlog(subject, events, Progress::position);
  const std::string by_row = make_backlog(subject, events);
  const Options large{.queue = {.batch = kLargeBatch}};
  const auto limit = [&](std::string name) {
    return on_copy(std::move(name), subject, by_position, events, [&](const auto& database) {
      return subject.drain_position_limit(database, events);
    });
  };
  const auto ours = [&](std::string name, const std::string& backlog, const Options& options) {
    return on_copy(std::move(name), subject, backlog, events, [&, options](const auto& database) {
      return drain_ours(subject.open(database), events, options);
    });
  };
  const std::size_t single = settings.size(kSingleEvents);
  const auto logged = [&](std::string name, Progress progress) {
    return Variant{std::move(name), [&subject, single, progress] {
                     return bytes_of_each(subject, single, progress);
                   }};
  };
  enum { kLimit, kLimitAgain, kOurs, kOursLarge, kRow, kRowLarge, kLog, kRowLog };
  const std::vector<Variant> variants{
      limit("limit"),
      limit("limit, again"),
      ours("ours", by_position, {}),
      ours("ours, batch 500", by_position, large),
      ours("row state", by_row, {}),
      ours("row state, batch 500", by_row, large),
      logged("log by position", Progress::position),
      logged("log by row", Progress::row),
  };
  const std::vector<Samples> figures = interleave(variants, settings.rounds);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    report.add(variants[i].name, figures[i], i < kLog ? "events/s" : "bytes/event");
  }
  report.add("limit again / limit (control)", ratio(figures[kLimitAgain], figures[kLimit]),
             "ratio");
  report.add("ours / limit", ratio(figures[kOurs], figures[kLimit]), "ratio", at_least(0.7));
  report.add("ours, batch 500 / limit", ratio(figures[kOursLarge], figures[kLimit]), "ratio");
  report.add("ours / row state", ratio(figures[kOurs], figures[kRow]), "ratio",
             at_least(subject.bars().position));
  report.add("ours / row state, batch 500", ratio(figures[kOursLarge], figures[kRowLarge]),
             "ratio");
  report.add("log by position / log by row", ratio(figures[kLog], figures[kRowLog]), "ratio",
             at_most(0.62));
  report.print();
  subject.remove(by_position);
  subject.remove(by_row);
}

void engine(const Settings& settings, Subject& subject, Report& report) {
  report.begin("engine", "the same drain without a database");
  const std::size_t events = settings.size(kEvents);
  const std::string backlog = make_backlog(subject, events);
  const auto on_memory = [=](Options options) {
    return [=] {
      return static_cast<double>(events) / drain_ours(memory_backlog(events), events, options);
    };
  };
  const std::vector<Variant> variants{
      {"memory", on_memory({})},
      {"memory, again", on_memory({})},
      {"memory, ordering none", on_memory({.ordering = Ordering::none})},
      on_copy(subject.name(), subject, backlog, events,
              [&](const auto& database) { return drain_ours(subject.open(database), events, {}); }),
  };
  const std::vector<Samples> rates = interleave(variants, settings.rounds);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    report.add(variants[i].name, rates[i], "events/s");
  }
  report.add("memory again / memory (control)", ratio(rates[1], rates[0]), "ratio");
  report.add("memory / " + subject.name(), ratio(rates[0], rates[3]), "ratio", at_least(3));
  report.print();
  subject.remove(backlog);
}

}  // namespace outbox::bench
