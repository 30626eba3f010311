#include <array>
#include <memory>
#include <vector>

#include "benchmarks.h"
#include "events.h"
#include "harness.h"
#include "outbox/writer.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kTransactions = 1'000;
constexpr std::size_t kBatches = 20;
constexpr std::size_t kAtOnce = 100;
constexpr std::size_t kNotifying = 4;

Contestant ours(std::string name, Writer& writer) {
  return {std::move(name), [&writer](std::size_t, std::uint64_t number) {
            auto tx = writer.begin();
            tx.write(draft(number));
            tx.commit();
          }};
}

// What an application does in its transaction.
constexpr const char* kBusinessTable =
    "CREATE TABLE bench_order (id bigint PRIMARY KEY, total int)";
std::string business(std::uint64_t number) {
  return "INSERT INTO bench_order (id, total) VALUES (" + std::to_string(number) + ", 42)";
}

Contestant with_business(std::string name, Writer& writer) {
  return {std::move(name), [&writer](std::size_t, std::uint64_t number) {
            auto tx = writer.begin();
            tx.execute(business(number));
            tx.write(draft(number));
            tx.commit();
          }};
}

// A connection for each writer.
Contestant bare(std::string name, Subject& subject, const std::string& database,
                std::size_t writers) {
  auto connections = std::make_shared<std::vector<std::unique_ptr<BareWriter>>>();
  for (std::size_t n = 0; n < writers; ++n) connections->push_back(subject.writer(database));
  return {std::move(name), [connections](std::size_t writer, std::uint64_t number) {
            (*connections)[writer]->write(number);
          }};
}

void compare(const Settings& settings, Subject& subject, Report& report, std::size_t writers) {
  const std::array databases{subject.fresh(), subject.fresh(), subject.fresh()};
  std::vector<Samples> rates;
  {
    Writer writer(subject.open(databases[0]));
    const std::array contestants{ours("ours", writer), bare("bare", subject, databases[1], writers),
                                 bare("bare, again", subject, databases[2], writers)};
    rates = in_turns(contestants, writers, settings.size(kTransactions) * writers, settings.rounds);
  }
  const std::string prefix = writers == 1 ? "" : std::to_string(writers) + " writers, ";
  report.add(prefix + "ours", rates[0], "commits/s");
  report.add(prefix + "bare", rates[1], "commits/s");
  report.add(prefix + "bare, again", rates[2], "commits/s");
  report.add(prefix + "bare again / bare (control)", ratio(rates[2], rates[1]), "ratio");
  report.add(prefix + "ours / bare", ratio(rates[0], rates[1]), "ratio",
             at_least(subject.bars().write));
  for (const std::string& database : databases) subject.remove(database);
}

void compare_to_business(const Settings& settings, Subject& subject, Report& report,
                         std::size_t writers, Opening opening, double bar) {
  const std::array databases{subject.fresh(), subject.fresh(), subject.fresh()};
  for (const std::string& database : databases) subject.connect(database)->exec(kBusinessTable);
  std::vector<Samples> rates;
  {
    Writer writer(subject.open(databases[0], opening));
    const std::array contestants{with_business("ours", writer),
                                 by_c_api("bare", subject, databases[1], writers, business),
                                 by_c_api("bare, again", subject, databases[2], writers, business)};
    rates = in_turns(contestants, writers, settings.size(kTransactions) * writers, settings.rounds);
  }
  const std::string prefix = std::to_string(writers) + " writers, ";
  report.add(prefix + "with an event", rates[0], "commits/s");
  report.add(prefix + "without", rates[1], "commits/s");
  report.add(prefix + "without, again", rates[2], "commits/s");
  report.add(prefix + "again / without (control)", ratio(rates[2], rates[1]), "ratio");
  report.add(prefix + "with / without", ratio(rates[0], rates[1]), "ratio", at_least(bar));
  for (const std::string& database : databases) subject.remove(database);
}

}  // namespace

void write_at_commit(const Settings& settings, Subject& subject, Report& report) {
  report.begin("write_at_commit",
               "a business transaction with an event sent with the COMMIT, against the bare one");
  const Opening at_commit{.insert_at_commit = true};
  compare_to_business(settings, subject, report, 1, at_commit, 0.83);
  compare_to_business(settings, subject, report, 4, at_commit, 0.86);
  compare_to_business(settings, subject, report, 16, at_commit, 0.76);
  report.print();
}

void write_with_business(const Settings& settings, Subject& subject, Report& report) {
  report.begin("write_with_business", "a business transaction with an event, against the bare one");
  compare_to_business(settings, subject, report, 4, {}, 0.72);
  report.print();
}

void write_one(const Settings& settings, Subject& subject, Report& report) {
  report.begin("write", "a transaction with one event, against the same INSERT by the C API");
  for (const std::size_t writers : subject.writers()) compare(settings, subject, report, writers);
  report.print();
}

void notify(const Settings& settings, Subject& subject, Report& report) {
  report.begin("notify", "4 writers that tell another process of their commits, or do not");
  const std::array databases{subject.fresh(), subject.fresh(), subject.fresh()};
  std::vector<Samples> rates;
  {
    std::vector<std::shared_ptr<Store>> listening;
    std::vector<std::unique_ptr<Watch>> watches;
    for (const std::string& database : databases) {
      listening.push_back(subject.open(database));
      watches.push_back(listening.back()->watch([] {}));
    }
    Writer telling(subject.open(databases[0]));
    Writer silent(subject.open(databases[1], {.notify = false}));
    Writer silent_again(subject.open(databases[2], {.notify = false}));
    const std::array contestants{ours("telling", telling), ours("silent", silent),
                                 ours("silent, again", silent_again)};
    rates = in_turns(contestants, kNotifying, settings.size(kTransactions) * kNotifying,
                     settings.rounds);
  }
  report.add("telling", rates[0], "commits/s");
  report.add("silent", rates[1], "commits/s");
  report.add("silent, again", rates[2], "commits/s");
  const Samples control = ratio(rates[2], rates[1]);
  report.add("silent again / silent (control)", control, "ratio");
  report.add("telling / silent", ratio(rates[0], rates[1]), "ratio",
             at_least(0.95 - spread(control)));
  report.print();
  for (const std::string& database : databases) subject.remove(database);
}

void write_all(const Settings& settings, Subject& subject, Report& report) {
  report.begin("write_all", "a transaction with 100 events, written at once or one by one");
  const std::array databases{subject.fresh(), subject.fresh(), subject.fresh()};
  std::vector<Samples> rates;
  {
    Writer at_once(subject.open(databases[0]));
    Writer one_by_one(subject.open(databases[1]));
    Writer again(subject.open(databases[2]));
    const auto drafts = [](std::uint64_t number) {
      std::vector<Draft> result;
      for (std::size_t n = 0; n < kAtOnce; ++n) result.push_back(draft(number * kAtOnce + n));
      return result;
    };
    const auto singly = [&](std::string name, Writer& writer) {
      return Contestant{std::move(name), [&](std::size_t, std::uint64_t number) {
                          auto tx = writer.begin();
                          for (Draft& one : drafts(number)) tx.write(std::move(one));
                          tx.commit();
                        }};
    };
    const std::array contestants{Contestant{"write_all",
                                            [&](std::size_t, std::uint64_t number) {
                                              auto tx = at_once.begin();
                                              tx.write_all(drafts(number));
                                              tx.commit();
                                            }},
                                 singly("one by one", one_by_one),
                                 singly("one by one, again", again)};
    rates = in_turns(contestants, 1, settings.size(kBatches), settings.rounds);
  }
  report.add("write_all", rates[0], "commits/s");
  report.add("one by one", rates[1], "commits/s");
  report.add("one by one, again", rates[2], "commits/s");
  report.add("one by one again / one by one (control)", ratio(rates[2], rates[1]), "ratio");
  report.add("write_all / one by one", ratio(rates[0], rates[1]), "ratio", at_least(5));
  report.print();
  for (const std::string& database : databases) subject.remove(database);
}

}  // namespace outbox::bench
