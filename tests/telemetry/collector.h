// A real OpenTelemetry collector on free ports of the loopback.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace outbox::telemetry_tests {

// A span as the collector understood it.
struct ReceivedSpan {
  std::string trace_id, id, parent_id, name, kind, state, status, status_message;
  std::map<std::string, std::string> attributes;  // "Str(outbox)", "Int(1)"
  std::map<std::string, std::string> resource;
};

// Fetches it if need be, starts it, and ends it with this object. Throws
// std::runtime_error if it does not come up: a check that is skipped in silence
// is none. Not thread-safe.
class Collector {
 public:
  Collector();
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  std::string url() const;

  // What it has received, when there are so many; nullopt if they do not come.
  std::optional<std::vector<ReceivedSpan>> wait_for(std::size_t spans) const;

  // All that it said.
  std::string said() const;

 private:
  bool start(const std::string& program);
  void stop();

  std::string folder_;
  int port_ = 0;
  int pid_ = -1;
};

}  // namespace outbox::telemetry_tests
