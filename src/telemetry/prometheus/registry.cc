#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/mutex.h"
#include "base/quote.h"
#include "outbox/error.h"
#include "outbox/telemetry/prometheus.h"
#include "telemetry/prometheus/names.h"

namespace outbox::prometheus {
namespace {

constexpr std::array kCounters{
    Counter::hot_enqueued,  Counter::hot_dropped, Counter::hot_skipped_delayed,
    Counter::cold_enqueued, Counter::success,     Counter::failure,
    Counter::deferred,      Counter::dead,        Counter::stale_updates,
    Counter::hung_calls,    Counter::unroutable};
constexpr std::array kGauges{Gauge::hot_depth,    Gauge::cold_depth,  Gauge::in_flight,
                             Gauge::pending,      Gauge::dead_events, Gauge::oldest_lag,
                             Gauge::pending_bytes};
constexpr std::array kTimings{Timing::listener, Timing::commit_to_done};

template <class Enum>
constexpr std::size_t index(Enum value) {
  return static_cast<std::size_t>(value);
}

// The tables below are indexed by the enum: none may be missing or misplaced.
template <class Table>
constexpr bool in_order(const Table& table) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (index(table[i]) != i) return false;
  }
  return true;
}
static_assert(in_order(kCounters) && in_order(kGauges) && in_order(kTimings));

// The stacks that are in use. Thread-safe.
class Stacks : public std::enable_shared_from_this<Stacks> {
 public:
  std::shared_ptr<Metrics> make(const StackOptions& options);

  ::prometheus::Registry& registry() { return registry_; }

 private:
  using Key = std::pair<std::string, std::map<std::string, std::string>>;

  ::prometheus::Registry registry_;
  Mutex mutex_;
  std::map<Key, std::weak_ptr<Metrics>> used_ OUTBOX_GUARDED_BY(mutex_);
};

// Knows its series from the start, so that counting is no more than adding to
// a number. Thread-safe.
class Stack final : public Metrics {
 public:
  Stack(std::shared_ptr<Stacks> stacks, const StackOptions& options)
      : stacks_(std::move(stacks)), options_(options) {
    for (const Counter counter : kCounters) {
      counters_[index(counter)] = &series(::prometheus::BuildCounter(), name_of(counter), options);
    }
    for (const Gauge gauge : kGauges) {
      gauges_[index(gauge)] = &series(::prometheus::BuildGauge(), name_of(gauge), options);
    }
    for (const Timing timing : kTimings) {
      histograms_[index(timing)] =
          &series(::prometheus::BuildHistogram(), name_of(timing), options, duration_buckets());
    }
  }

  void add(Counter counter, std::uint64_t n) noexcept override {
    counters_[index(counter)]->Increment(static_cast<double>(n));
  }

  void set(Gauge gauge, double value) noexcept override { gauges_[index(gauge)]->Set(value); }

  void observe(Timing timing, std::chrono::nanoseconds value) noexcept override {
    // The time of day may have been set back in between.
    const double seconds = std::max(0.0, std::chrono::duration<double>(value).count());
    histograms_[index(timing)]->Observe(seconds);
  }

  std::shared_ptr<Metrics> of_subscription(const std::string& name) override {
    StackOptions options = options_;
    options.labels["subscription"] = name;
    return stacks_->make(options);
  }

 private:
  // Labels are given to the series, not to the family: families of the same name
  // would be printed with a HELP each, which is not allowed.
  template <class Metric, class... Arguments>
  Metric& series(::prometheus::detail::Builder<Metric> builder, const MetricName& name,
                 const StackOptions& options, const Arguments&... arguments) {
    return builder.Name(options.prefix + name.name)
        .Help(name.help)
        .Register(stacks_->registry())
        .Add(options.labels, arguments...);
  }

  // Constant after construction; what they point to lives in the registry.
  const std::shared_ptr<Stacks> stacks_;
  const StackOptions options_;
  std::array<::prometheus::Counter*, kCounters.size()> counters_{};
  std::array<::prometheus::Gauge*, kGauges.size()> gauges_{};
  std::array<::prometheus::Histogram*, kTimings.size()> histograms_{};
};

std::shared_ptr<Metrics> Stacks::make(const StackOptions& options) {
  check_prefix(options.prefix);
  for (const auto& [key, value] : options.labels) check_label(key, value);
  const MutexLock lock(mutex_);
  std::weak_ptr<Metrics>& slot = used_[{options.prefix, options.labels}];
  if (!slot.expired()) {
    throw MisuseError("prometheus: another stack has the prefix " + quote(options.prefix) +
                      " and the same labels, give each its own");
  }
  auto made = std::make_shared<Stack>(shared_from_this(), options);
  slot = made;
  return made;
}

}  // namespace

class Registry::Impl {
 public:
  std::shared_ptr<Metrics> stack(const StackOptions& options) { return stacks_->make(options); }

  std::string text() const {
    return ::prometheus::TextSerializer().Serialize(stacks_->registry().Collect());
  }

 private:
  const std::shared_ptr<Stacks> stacks_ = std::make_shared<Stacks>();
};

Registry::Registry() : impl_(std::make_unique<Impl>()) {}
Registry::~Registry() = default;

std::shared_ptr<Metrics> Registry::stack(StackOptions options) { return impl_->stack(options); }

std::string Registry::text() const { return impl_->text(); }

}  // namespace outbox::prometheus
