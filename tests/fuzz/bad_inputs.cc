#include "bad_inputs.h"

#include <fstream>
#include <set>
#include <stdexcept>

#include "cli/arguments/values.h"
#include "cli/doctor/backend.h"
#include "escapes.h"
#include "http/target.h"
#include "no_log.h"
#include "outbox/consumer/redis.h"
#include "outbox/sqlite.h"
#include "outbox/telemetry/otlp.h"
#include "outbox/telemetry/prometheus.h"
#include "outbox/telemetry/tracing.h"
#include "support/temporary_directory.h"

namespace outbox::fuzz {
namespace {

BadInput parse(const std::string& line, int number) {
  std::vector<std::string> columns{""};
  for (const char c : line) {
    if (c == '\t') {
      columns.emplace_back();
    } else {
      columns.back() += c;
    }
  }
  columns.resize(std::max<std::size_t>(columns.size(), 5));
  const std::string& expected = columns[3];
  if (columns.size() != 5 || (expected != "accepted" && expected != "refused")) {
    throw std::runtime_error("bad_inputs.tsv:" + std::to_string(number) + " makes no sense");
  }
  return {.what = columns[0],
          .field = columns[1],
          .value = unescape(columns[2]),
          .accepted = expected == "accepted",
          .part = unescape(columns[4]),
          .line = number};
}

Time time_of(const std::string& micros) {
  return Time{std::chrono::microseconds{std::stoll(micros)}};
}

[[noreturn]] void refuse() { throw std::invalid_argument("it is not understood"); }

constexpr const char* kTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// Opens a store with that table and sends an event through it.
std::string use_table(const std::string& table) {
  const test::TemporaryDirectory directory;
  const auto store = sqlite::open(directory.file("t.db"), {.table = table, .log = no_log()});
  const Event event = make_event({.type = "T", .payload = json("{}"), .id = "x"});
  const auto connection = store->connect();
  connection->begin();
  connection->insert({&event, 1}, {});
  connection->commit();
  if (!store->find("x")) throw std::logic_error("what was written is not found");
  return {};
}

}  // namespace

std::vector<BadInput> load_bad_inputs(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::vector<BadInput> inputs;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (!line.empty() && line.front() != '#') inputs.push_back(parse(line, number));
  }
  return inputs;
}

bool is_event_field(const std::string& field) {
  static const std::set<std::string> fields{
      "id",           "type",        "aggregate_type", "aggregate_id",  "tenant_id",
      "content_type", "header_key",  "header_value",   "json",          "bytes",
      "payload",      "occurred_at", "deliver_at",     "deliver_after", "deliver_both"};
  return fields.contains(field);
}

Draft draft_with(const BadInput& input) {
  const std::string& field = input.field;
  const std::string& value = input.value;
  Draft draft{.type = "Happened",
              .aggregate_type = "Thing",
              .payload = json("{}"),
              .id = "line " + std::to_string(input.line)};
  if (field == "id") draft.id = value;
  if (field == "type") draft.type = value;
  if (field == "aggregate_type") draft.aggregate_type = value;
  if (field == "aggregate_id") draft.aggregate_id = value;
  if (field == "tenant_id") draft.tenant_id = value;
  if (field == "content_type") draft.payload = json("{}", value);
  if (field == "header_key") draft.headers[value] = "v";
  if (field == "header_value") draft.headers["k"] = value;
  if (field == "json") draft.payload = json(value);
  if (field == "bytes") draft.payload = bytes(value);
  if (field == "payload") draft.payload = {};
  if (field == "occurred_at") draft.occurred_at = time_of(value);
  if (field == "deliver_at" || field == "deliver_both") draft.deliver_at = time_of(value);
  if (field == "deliver_after" || field == "deliver_both") {
    draft.deliver_after = std::chrono::microseconds{std::stoll(value)};
  }
  return draft;
}

std::map<std::string, Taker> takers() {
  std::map<std::string, Taker> all = option_takers();
  all["table"] = use_table;
  all["traceparent"] = [](const std::string& value) {
    if (!parse_trace(value)) refuse();
    return std::string();
  };
  all["tracestate"] = [](const std::string& value) {
    const auto context = parse_trace(kTraceparent, value);
    if (context->state.empty()) refuse();
    return context->state;
  };
  all["url"] = [](const std::string& value) {
    return cli::find_backend(value, "outbox_event")->arguments();
  };
  all["span"] = [](const std::string& value) {
    if (!cli::parse_duration(value)) refuse();
    return std::string();
  };
  all["time"] = [](const std::string& value) {
    if (!cli::parse_time(value)) refuse();
    return std::string();
  };
  all["target"] = [](const std::string& value) { return http::parse_request_target(value).path; };
  all["metrics.prefix"] = [](const std::string& value) {
    prometheus::Registry().stack({.prefix = value});
    return std::string();
  };
  all["metrics.label"] = [](const std::string& value) {
    prometheus::Registry().stack({.labels = {{value, "x"}}});
    return std::string();
  };
  all["otlp.endpoint"] = [](const std::string& value) {
    const otlp::Exporter exporter({.endpoint = value, .log = no_log()});
    return std::string();
  };
  all["otlp.header"] = [](const std::string& value) {
    const otlp::Exporter exporter({.headers = {{value, "x"}}, .log = no_log()});
    return std::string();
  };
  // Neither connects.
  all["redis.url"] = [](const std::string& value) {
    redis::tracker(value, {}, {.log = no_log()});
    return std::string();
  };
  all["redis.prefix"] = [](const std::string& value) {
    redis::tracker("redis://h", {}, {.prefix = value, .log = no_log()});
    return std::string();
  };
  all["tracker.group"] = [](const std::string& value) {
    memory_tracker()->start(value, "e");
    return std::string();
  };
  all["tracker.event_id"] = [](const std::string& value) {
    memory_tracker()->start("g", value);
    return std::string();
  };
  all["handler"] = [](const std::string& value) {
    Listeners().fan_out("A", "T", {handler(value, [](const Event&) {})});
    return std::string();
  };
  return all;
}

}  // namespace outbox::fuzz
