#include <vector>

#include "benchmarks.h"
#include "drain.h"
#include "events.h"
#include "outbox/memory.h"

namespace outbox::bench {
namespace {

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
