// What the metrics are called and what they mean.
#pragma once

#include <string>
#include <vector>

#include "outbox/telemetry/metrics.h"

namespace outbox::prometheus {

// Without the prefix of the stack.
struct MetricName {
  std::string name;
  const char* help;
};

MetricName name_of(Counter counter);
MetricName name_of(Gauge gauge);
MetricName name_of(Timing timing);

// From 10 microseconds to a minute, three to a decade.
std::vector<double> duration_buckets();

// Throw MisuseError.
void check_prefix(const std::string& prefix);
void check_label(const std::string& key, const std::string& value);

}  // namespace outbox::prometheus
