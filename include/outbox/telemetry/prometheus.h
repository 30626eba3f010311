// Metrics for Prometheus, in its text format. Needs outbox::prometheus.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "outbox/export.h"
#include "outbox/telemetry/metrics.h"

namespace outbox::prometheus {

struct StackOptions {
  // Prefix of every name: letters, digits and `_`, no digit first.
  std::string prefix = "outbox_";

  // On every value, e.g. {{"database", "shop"}}.
  std::map<std::string, std::string> labels{};
};

// The metrics of one outbox or of several.
//
//   outbox::prometheus::Registry registry;
//   outbox::Outbox box{db, on, {.metrics = registry.stack()}};
//   ...
//   answer("/metrics", registry.text());
//
// Thread-safe.
class OUTBOX_EXPORT Registry {
 public:
  Registry();
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The Metrics of one outbox. Several of them need different prefixes or labels;
  // throws MisuseError if these are in use, or invalid. When an outbox is
  // gone its values stay, and the next one with the same names continues them.
  //
  // It may outlive the registry.
  std::shared_ptr<Metrics> stack(StackOptions options = {});

  // Everything, to be served as kContentType.
  std::string text() const;

  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox::prometheus
