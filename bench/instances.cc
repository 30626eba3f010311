#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "benchmarks.h"
#include "drain.h"
#include "events.h"
#include "outbox/admin/admin.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kBacklog = 50'000;
constexpr std::size_t kNaiveEvents = 1'000;
constexpr std::size_t kClaiming = 4;
constexpr std::size_t kWriters = 4;
constexpr std::size_t kTransactionsOfAWriter = 2'000;

// Several instances on one database, each with connections of its own as if it were
// alone in its process.
class Together {
 public:
  Together(Subject& subject, const std::string& database, std::size_t count, Options options) {
    options.mode = Mode::multi_node;
    options.lease.duration = std::chrono::seconds{3};  // the shards are shared sooner
    options.log = kSilent;
    for (std::size_t n = 0; n < count; ++n) {
      stores_.push_back(subject.open(database));
      boxes_.push_back(std::make_unique<Outbox>(stores_.back(), counting(delivered_), options));
    }
  }

  void start() {
    for (const auto& box : boxes_) box->start();
  }

  // Until each has its share.
  void settle() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    const auto shards = static_cast<std::size_t>(stores_.front()->capabilities().shards);
    const auto settled = [&] {
      const std::vector<Member> members = stores_.front()->admin().members();
      std::size_t fair = 0;
      for (const Member& member : members) {
        if (member.shards.size() == shards / boxes_.size()) ++fair;
      }
      return fair == boxes_.size();
    };
    while (!settled()) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error("instances: the shards were not shared");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
    }
  }

  void wake() {
    for (const auto& box : boxes_) box->wake();
  }

  // Until all events are delivered, and their updates have been acknowledged.
  void wait(std::size_t events) {
    if (!boxes_.front()->wait_idle(std::chrono::minutes{5})) {
      throw std::runtime_error("instances: not idle");
    }
    check_delivered(delivered_, events);
  }

 private:
  std::atomic<std::size_t> delivered_ = 0;
  std::vector<std::shared_ptr<Store>> stores_;
  std::vector<std::unique_ptr<Outbox>> boxes_;
};

// The table is filled when the shards have been shared, and is found when all are
// woken: what is measured is neither the sharing nor the filling.
double drain_by_shards(Subject& subject, std::size_t count, std::size_t events) {
  const std::string database = subject.fresh();
  double seconds = 0;
  {
    Together instances(subject, database, count, {});
    instances.start();
    instances.settle();
    subject.fill(database, {.rows = events});
    seconds = seconds_of([&] {
      instances.wake();
      instances.wait(events);
    });
  }
  subject.remove(database);
  return static_cast<double>(events) / seconds;
}

}  // namespace

void row_claims(const Settings& settings, Subject& subject, Report& report) {
  report.begin("row_claims", "a backlog delivered by instances that claim rows");
  const std::size_t events = settings.size(kBacklog);
  const std::size_t naive_events = settings.size(kNaiveEvents);
  const std::string backlog = make_backlog(subject, events);
  const auto claiming = [&](std::string name, std::size_t count) {
    return on_copy(std::move(name), subject, backlog, events, [&, count](const auto& database) {
      Together instances(subject, database, count,
                         {.ordering = Ordering::none, .row_claims = true});
      return seconds_of([&] {
        instances.start();
        instances.wait(events);
      });
    });
  };
  const auto naive = [&](std::string name) {
    return on_copy(std::move(name), subject, backlog, naive_events, [&](const auto& database) {
      return subject.drain_naive(database, naive_events);
    });
  };
  const std::vector<Variant> variants{claiming("4 instances", kClaiming), claiming("1 instance", 1),
                                      naive("naive"), naive("naive, again")};
  const std::vector<Samples> rates = interleave(variants, settings.rounds);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    report.add(variants[i].name, rates[i], "events/s");
  }
  report.add("naive again / naive (control)", ratio(rates[3], rates[2]), "ratio");
  report.add("4 instances / naive", ratio(rates[0], rates[2]), "ratio",
             at_least(subject.bars().row_claims_naive));
  report.print();
  subject.remove(backlog);
}

void instances(const Settings& settings, Subject& subject, Report& report) {
  report.begin("instances", "a backlog delivered by instances that share the shards");
  const std::size_t events = settings.size(kBacklog);
  const auto sharing = [&](std::string name, std::size_t count) {
    return Variant{std::move(name), [&, count] { return drain_by_shards(subject, count, events); }};
  };
  const std::vector<Variant> variants{sharing("1 instance", 1), sharing("1 instance, again", 1),
                                      sharing("2 instances", 2), sharing("4 instances", 4)};
  const std::vector<Samples> rates = interleave(variants, settings.rounds);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    report.add(variants[i].name, rates[i], "events/s");
  }
  const Bar no_fall = at_least(0.95);  // but for noise
  report.add("1 again / 1 (control)", ratio(rates[1], rates[0]), "ratio");
  report.add("2 / 1", ratio(rates[2], rates[0]), "ratio", no_fall);
  report.add("4 / 2", ratio(rates[3], rates[2]), "ratio", no_fall);
  report.print();
}

void keep_up(const Settings& settings, Subject& subject, Report& report) {
  report.begin("keep_up", "4 writers at full speed, and one dispatcher");
  const std::size_t transactions = settings.size(kTransactionsOfAWriter);
  Samples written;
  Samples done;
  for (int round = 0; round < settings.rounds; ++round) {
    note("round " + std::to_string(round + 1) + " of " + std::to_string(settings.rounds));
    const std::string database = subject.fresh();
    {
      const std::shared_ptr<Store> store = subject.open(database);
      std::atomic<std::size_t> delivered = 0;
      Outbox box(store, counting(delivered), {.log = kSilent});
      box.start();
      box.wait_idle(std::chrono::seconds{5});
      const double seconds = seconds_of([&] {
        std::vector<std::jthread> writers;
        for (std::size_t writer = 0; writer < kWriters; ++writer) {
          writers.emplace_back([&, first = writer * transactions] {
            for (std::size_t n = first; n < first + transactions; ++n) {
              auto tx = box.begin();
              tx.write(draft(n));
              tx.commit();
            }
          });
        }
      });
      // What is not done yet when the last writer ends.
      const auto pending = static_cast<double>(store->counts().pending);
      const auto total = static_cast<double>(kWriters * transactions);
      written.push_back(total / seconds);
      done.push_back((total - pending) / seconds);
    }
    subject.remove(database);
  }
  report.add("written", written, "events/s");
  report.add("done meanwhile", done, "events/s");
  report.add("done / written", ratio(done, written), "ratio", at_least(0.95));
  report.print();
}

}  // namespace outbox::bench
