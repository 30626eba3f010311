#include "outbox/consumer/inbox.h"

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks.h"
#include "harness.h"
#include "outbox/event.h"
#include "outbox/writer.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kTransactions = 1'000;

// What may cost a consumer's transaction, in times of one that has the effect alone.
constexpr double kMostCost = 1.35;

// The smallest effect there is: with any other the inbox weighs less.
constexpr const char* kEffectTable = "CREATE TABLE bench_effect (id bigint PRIMARY KEY, total int)";
std::string effect(std::uint64_t number) {
  return "INSERT INTO bench_effect (id, total) VALUES (" + std::to_string(number) + ", 42)";
}

Contestant with_inbox(std::string name, Writer& writer, Inbox& inbox) {
  return {std::move(name), [&](std::size_t, std::uint64_t number) {
            auto tx = writer.begin();
            inbox.once(tx, "bench", new_id(), [&] { tx.execute(effect(number)); });
            tx.commit();
          }};
}

Contestant without(std::string name, Writer& writer) {
  return {std::move(name), [&writer](std::size_t, std::uint64_t number) {
            auto tx = writer.begin();
            tx.execute(effect(number));
            tx.commit();
          }};
}

void compare(const Settings& settings, Subject& subject, Report& report, std::size_t writers) {
  const std::array databases{subject.fresh(), subject.fresh(), subject.fresh(), subject.fresh()};
  std::vector<Samples> rates;
  {
    std::vector<std::shared_ptr<Store>> stores;
    for (const std::string& database : databases) {
      stores.push_back(subject.open(database));
      subject.connect(database)->exec(kEffectTable);
    }
    Inbox inbox(stores[0]);
    Writer consumer(stores[0]);
    Writer writer(stores[1]);
    Writer again(stores[2]);
    const std::array contestants{with_inbox("with", consumer, inbox), without("without", writer),
                                 without("without, again", again),
                                 by_c_api("by the C API", subject, databases[3], writers, effect)};
    rates = in_turns(contestants, writers, settings.size(kTransactions) * writers, settings.rounds);
  }
  const std::string prefix = writers == 1 ? "" : std::to_string(writers) + " consumers, ";
  report.add(prefix + "with the inbox", rates[0], "commits/s");
  report.add(prefix + "without", rates[1], "commits/s");
  report.add(prefix + "without, again", rates[2], "commits/s");
  report.add(prefix + "without, by the C API", rates[3], "commits/s");
  // Rates the other way round: what a transaction costs.
  report.add(prefix + "cost again / without (control)", ratio(rates[1], rates[2]), "ratio");
  report.add(prefix + "cost with / without", ratio(rates[1], rates[0]), "ratio",
             at_most(kMostCost));
  report.add(prefix + "cost with / C API", ratio(rates[3], rates[0]), "ratio");
  for (const std::string& database : databases) subject.remove(database);
}

}  // namespace

void inbox(const Settings& settings, Subject& subject, Report& report) {
  report.begin("inbox", "a transaction with one INSERT, as an effect of the inbox and alone");
  for (const std::size_t writers : subject.writers()) compare(settings, subject, report, writers);
  report.print();
}

}  // namespace outbox::bench
