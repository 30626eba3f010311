// Sends spans to an OpenTelemetry collector, by OTLP over HTTP in JSON. Needs
// outbox::otlp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "outbox/export.h"
#include "outbox/log.h"
#include "outbox/telemetry/tracing.h"

namespace outbox::otlp {

struct Options {
  // http or https, with the whole path. Credentials go into the headers.
  std::string endpoint = "http://localhost:4318/v1/traces";

  // Sent with every request, e.g. {{"Authorization", "Bearer ..."}}. Never logged.
  std::map<std::string, std::string> headers{};

  // Who the spans are from: `service.name`, and more attributes of the resource,
  // e.g. {{"deployment.environment", "test"}}.
  std::string service_name = "unknown_service";
  std::map<std::string, std::string> resource{};

  // How many spans can be queued; when the queue is full, spans are dropped and counted.
  std::size_t capacity = 4'096;

  // A request takes up to this many spans, and is sent when this many are queued, or
  // this long after the first.
  std::size_t batch = 512;
  std::chrono::milliseconds interval{1'000};

  std::chrono::milliseconds timeout{10'000};  // of one request

  // If the collector is unreachable or overloaded (429, 502, 503, 504), the request is
  // retried after a pause that doubles from the first to the second value, or after its
  // Retry-After. A batch is dropped after the third.
  std::chrono::milliseconds pause{1'000};
  std::chrono::milliseconds max_pause{30'000};
  std::chrono::milliseconds give_up_after{120'000};

  // How long the destructor keeps trying.
  std::chrono::milliseconds close_timeout{5'000};

  Logger log{};  // empty: standard_error_log()
};

// Once closed, they add up to the recorded spans.
struct Counts {
  std::uint64_t sent = 0;     // the collector took them
  std::uint64_t dropped = 0;  // no room, or closed already
  std::uint64_t failed = 0;   // the collector refused them, or stayed unreachable
};

// A sink with a thread of its own: writing and delivering never wait for it.
//
//   auto exporter = std::make_shared<outbox::otlp::Exporter>(
//       outbox::otlp::Options{.service_name = "shop"});
//   auto tracing = std::make_shared<outbox::Tracing>(exporter);
//
// Certificates are verified as libcurl does by default, redirects are not
// followed, and the environment's proxy variables are honoured.
//
// Thread-safe. After fork() the child must not use it.
class OUTBOX_EXPORT Exporter final : public SpanSink {
 public:
  // Throws MisuseError for invalid options.
  explicit Exporter(Options options = {});
  ~Exporter() override;  // closes
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  void record(Span span) noexcept override;

  // Sends all spans recorded before this call without waiting for a full batch.
  // False if the time ran out first.
  bool flush(std::chrono::milliseconds timeout);

  // Takes no more spans, sends the remaining ones, and drops those not sent within
  // the timeout. False if any were dropped. Idempotent.
  bool close(std::chrono::milliseconds timeout);

  Counts counts() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox::otlp
