#include <array>
#include <cstdint>
#include <vector>

#include "bare.h"
#include "bare_writer.h"
#include "benchmarks.h"
#include "outbox/sqlite.h"
#include "outbox/writer.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kTransactions = 1'000;

}  // namespace

// One transaction of each in turn, each on its own file: what disturbs the disk
// for a moment disturbs all of them.
void write_one(const Settings& settings, Scratch& scratch, Report& report) {
  report.begin("write", "a transaction with one event, against the same INSERT by the C API");
  const std::size_t transactions = settings.size(kTransactions);
  const std::array paths{scratch.fresh(), scratch.fresh(), scratch.fresh()};
  std::vector<Samples> rates(paths.size());
  {
    const std::shared_ptr<Store> store = sqlite::open(paths[0]);
    Writer writer(store);
    BareWriter bare(paths[1]);
    BareWriter bare_again(paths[2]);
    const std::array<std::function<void(std::uint64_t)>, 3> transaction{
        [&](std::uint64_t n) {
          auto tx = writer.begin();
          tx.write({.type = "Placed",
                    .aggregate_type = "Order",
                    .aggregate_id = "order-" + std::to_string(n % 1'000),
                    .payload = json(payload(n))});
          tx.commit();
        },
        [&](std::uint64_t n) { bare.write(n); },
        [&](std::uint64_t n) { bare_again.write(n); },
    };
    std::uint64_t number = 0;
    for (int round = 0; round < settings.rounds; ++round) {
      std::array<double, 3> seconds{};
      for (std::size_t n = 0; n < transactions; ++n, ++number) {
        for (std::size_t k = 0; k < transaction.size(); ++k) {
          const std::size_t i = (n + k) % transaction.size();
          seconds[i] += seconds_of([&] { transaction[i](number); });
        }
      }
      for (std::size_t i = 0; i < rates.size(); ++i) {
        rates[i].push_back(static_cast<double>(transactions) / seconds[i]);
      }
    }
  }
  report.add("ours", rates[0], "commits/s");
  report.add("bare", rates[1], "commits/s");
  report.add("bare, again", rates[2], "commits/s");
  report.add("bare again / bare (control)", ratio(rates[2], rates[1]), "ratio");
  report.add("ours / bare", ratio(rates[0], rates[1]), "ratio", at_least(0.95));
  report.print();
  for (const std::string& path : paths) Scratch::remove(path);
}

}  // namespace outbox::bench
