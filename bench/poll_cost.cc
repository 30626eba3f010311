#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks.h"
#include "model/lane_key.h"

namespace outbox::bench {
namespace {

constexpr std::size_t kPolled = 100;
constexpr int kPollsARound = 50;

// A table in some state, with an owner that polls it.
class Polled {
 public:
  Polled(Subject& subject, const std::vector<LanePage>& fillings)
      : subject_(subject), database_(subject.fresh()) {
    for (const LanePage& filling : fillings) subject.fill(database_, filling);
    subject.tidy_up(database_);
    store_ = subject.open(database_);
    instance_ = store_->join({});
    if (instance_->renew().epoch == 0) throw std::runtime_error("poll_cost: not the owner");
    shards_.resize(static_cast<std::size_t>(store_->capabilities().shards));
    std::iota(shards_.begin(), shards_.end(), 0);
  }
  ~Polled() {
    instance_->leave();
    instance_.reset();
    store_.reset();
    subject_.remove(database_);
  }
  Polled(const Polled&) = delete;
  Polled& operator=(const Polled&) = delete;

  // Microseconds of a poll from the lowest row on: of what is ready, and of
  // what is due.
  double time() {
    Samples micros;
    for (int n = 0; n < kPollsARound; ++n) {
      micros.push_back(1e6 * seconds_of([this] { poll(); }));
    }
    return median(micros);
  }

  std::vector<Visited> visited() {
    return subject_.visited(database_, kPolled, [this] { poll(); });
  }

 private:
  void poll() {
    instance_->rewind(0);
    if (instance_->ready(shards_, 0, kPolled).rows.size() != kPolled) {
      throw std::runtime_error("poll_cost: not enough rows");
    }
    if (!instance_->due(shards_, kPolled).rows.empty()) {
      throw std::runtime_error("poll_cost: nothing should be due");
    }
  }

  Subject& subject_;
  const std::string database_;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Instance> instance_;
  std::vector<int> shards_;  // all
};

}  // namespace

void poll_cost(const Settings& settings, Subject& subject, Report& report) {
  report.begin("poll_cost", "a poll of 100 rows, by the state of the table");
  const auto pending = [](std::size_t rows) { return LanePage{.rows = rows}; };
  const auto done = [](std::size_t rows) {
    return LanePage{.rows = rows, .hold = "NULL", .status = 1};
  };
  // All of one aggregate; the head among them, as RETRY, makes no difference to
  // a read.
  const auto held = [](std::size_t rows) {
    return LanePage{
        .rows = rows, .aggregates = 1, .hold = std::to_string(lane_key("Order", "order-0"))};
  };

  note("filling tables");
  const std::size_t few = 1'000;
  const std::size_t many = settings.size(500'000);
  const std::size_t some_done = settings.size(10'000);
  const std::size_t many_done = settings.size(1'000'000);
  const std::size_t many_held = settings.size(100'000);
  Polled few_pending(subject, {pending(few)});
  Polled few_again(subject, {pending(few)});
  Polled many_pending(subject, {pending(many)});
  Polled few_behind_done(subject, {done(some_done), pending(few)});
  Polled many_behind_done(subject, {done(many_done), pending(few)});
  Polled behind_held(subject, {held(many_held), pending(few)});

  const auto variant = [](std::string name, Polled& polled) {
    return Variant{std::move(name), [&polled] { return polled.time(); }};
  };
  const std::vector<Variant> variants{
      variant(std::to_string(few) + " pending", few_pending),
      variant(std::to_string(few) + " pending, again", few_again),
      variant(std::to_string(many) + " pending", many_pending),
      variant(std::to_string(some_done) + " done", few_behind_done),
      variant(std::to_string(many_done) + " done", many_behind_done),
      variant(std::to_string(many_held) + " held", behind_held),
  };
  const std::vector<Polled*> polled{&few_pending,     &few_again,        &many_pending,
                                    &few_behind_done, &many_behind_done, &behind_held};
  const std::vector<Samples> times = interleave(variants, settings.rounds);
  std::vector<std::vector<Visited>> visited;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    visited.push_back(polled[i]->visited());
    report.add(variants[i].name + ", time", times[i], "us");
    for (const Visited& one : visited[i]) {
      report.add(variants[i].name + ", visited", {one.count}, one.what);
    }
  }
  report.add("pending again / pending, time (control)", ratio(times[1], times[0]), "ratio");
  const auto compare = [&](const std::string& what, std::size_t of, std::size_t to) {
    for (std::size_t i = 0; i < visited[of].size(); ++i) {
      report.add(what + ", " + visited[of][i].what, {visited[of][i].count / visited[to][i].count},
                 "ratio", at_most(1.1));
    }
    report.add(what + ", time", ratio(times[of], times[to]), "ratio", at_most(1.5));
  };
  compare("many / few pending", 2, 0);
  compare("many / few done", 4, 3);
  compare("held / none held", 5, 0);
  report.print();
}

}  // namespace outbox::bench
