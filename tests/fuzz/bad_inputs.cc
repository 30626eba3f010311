#include "bad_inputs.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <set>
#include <stdexcept>
#include <utility>

#include "cli/arguments/arguments.h"
#include "cli/doctor/backend.h"
#include "escapes.h"
#include "http/message.h"
#include "http/server.h"
#include "no_log.h"
#include "outbox/consumer/redis.h"
#include "outbox/memory.h"
#include "outbox/outbox.h"
#include "outbox/spi/poller.h"
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
    throw std::runtime_error("bad_inputs.tsv:" + std::to_string(number) + " is invalid");
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
  if (!store->admin().find("x")) throw std::logic_error("what was written is not found");
  return {};
}

// Every option that has a bad value, by the name `option.<struct>.<member>`.

using std::chrono::milliseconds;
using std::chrono::seconds;

// Into whatever type the member has.
template <class T>
T value_as(std::int64_t value) {
  if constexpr (std::is_base_of_v<milliseconds, T>) {
    return milliseconds{value};
  } else {
    return static_cast<T>(value);
  }
}
template <>
seconds value_as(std::int64_t value) {
  return seconds{value};
}
template <>
std::optional<seconds> value_as(std::int64_t value) {
  return seconds{value};
}
template <>
std::optional<int> value_as(std::int64_t value) {
  return static_cast<int>(value);
}

// A taker that sets one member of options made by `make` and gives them to `use`.
template <class Options, class Member>
Taker taker(Member Options::*member, void (*use)(Options), Options options = {}) {
  return [=](const std::string& value) {
    Options changed = options;
    changed.*member = value_as<Member>(std::stoll(value));
    use(std::move(changed));
    return std::string();
  };
}

// The same for a member of a group of theirs.
template <class Options, class Group, class Member>
Taker taker(Group Options::*group, Member Group::*member, void (*use)(Options),
            Options options = {}) {
  return [=](const std::string& value) {
    Options changed = options;
    changed.*group.*member = value_as<Member>(std::stoll(value));
    use(std::move(changed));
    return std::string();
  };
}

Listeners one_listener() {
  Listeners on;
  on.add("A", "T", [](const Event&) {});
  return on;
}

void use_facade(Options options) {
  options.log = no_log();
  Outbox box(memory::open(), one_listener(), std::move(options));
  box.start();
  box.close();
}

void use_dispatcher(DispatcherOptions options) {
  const auto store = memory::open();
  options.log = no_log();
  Dispatcher(std::shared_ptr<Instance>(store->join({})), one_listener(), std::move(options))
      .close();
}

class NoHandler final : public PollHandler {
 public:
  std::size_t room() override { return 0; }
  std::size_t in_flight() override { return 0; }
  bool handle(Row /*row*/) override { return false; }
};

void use_poller(PollerOptions options) {
  const auto store = memory::open();
  options.log = no_log();
  Poller(std::shared_ptr<Instance>(store->join({})), std::make_shared<NoHandler>(),
         std::move(options))
      .close();
}

void use_listener(ListenerOptions options) {
  Listeners().add(
      "A", "T", [](const Event&) {}, std::move(options));
}

void use_purge(PurgeOptions options) {
  options.log = no_log();
  Purger(memory::open(), std::move(options)).run_once();
}

void use_schedule(ReplaySchedule schedule) {
  schedule.log = no_log();
  ScheduledReplay(memory::open(), std::move(schedule)).run_once();
}

void use_bulk(BulkOptions options) { DeadEvents(memory::open()).replay_all({}, options); }

void use_backoff(ExponentialBackoffOptions options) {
  ExponentialBackoff(std::move(options)).delay(1);
}

void use_tracing(TracingOptions options) { const Tracing tracing(nullptr, options); }

void use_sqlite(sqlite::Options options) {
  const test::TemporaryDirectory directory;
  options.log = no_log();
  sqlite::open(directory.file("o.db"), std::move(options))->has_pending();
}

void use_memory(memory::Options options) { memory::open(options)->has_pending(); }

void use_otlp(otlp::Options options) {
  options.log = no_log();
  const otlp::Exporter exporter(std::move(options));
}

void use_tracker(TrackerOptions options) { memory_tracker(options); }

void use_idempotent(IdempotentOptions options) {
  options.log = no_log();
  idempotent(
      memory_tracker(), "g", [](const Event&) {}, std::move(options));
}

void use_redis(redis::Options options) {
  options.log = no_log();
  redis::tracker("redis://h", {}, std::move(options));
}

void use_http(http::ServerOptions options) {
  options.log = no_log();
  http::Server({}, std::move(options)).stop();
}

void use_instance(InstanceOptions options) {
  memory::open()->join(options)->renew();
  const test::TemporaryDirectory directory;
  const auto store = sqlite::open(directory.file("i.db"), {.log = no_log()});
  const auto instance = store->join(options);
  instance->renew();
  if (options.row_claims) instance->claim(milliseconds{0}, 1);
  instance->leave();
}

std::map<std::string, Taker> facade_takers() {
  const Options claims{.mode = Mode::multi_node, .ordering = Ordering::none, .row_claims = true};
  return {
      {"workers", taker(&Options::workers, use_facade)},
      {"queue.hot_capacity", taker(&Options::queue, &QueueOptions::hot_capacity, use_facade)},
      {"queue.cold_capacity", taker(&Options::queue, &QueueOptions::cold_capacity, use_facade)},
      {"queue.capacity_bytes", taker(&Options::queue, &QueueOptions::capacity_bytes, use_facade)},
      {"queue.batch", taker(&Options::queue, &QueueOptions::batch, use_facade)},
      {"poll_interval", taker(&Options::poll_interval, use_facade)},
      {"lease.duration", taker(&Options::lease, &LeaseOptions::duration, use_facade)},
      {"retry.max_attempts", taker(&Options::retry, &RetryOptions::max_attempts, use_facade)},
      {"timeouts.drain", taker(&Options::timeouts, &TimeoutOptions::drain, use_facade)},
      {"timeouts.hung", taker(&Options::timeouts, &TimeoutOptions::hung, use_facade)},
      {"breaker.pause", taker(&Options::breaker, &BreakerOptions::pause, use_facade)},
      {"breaker.max_pause", taker(&Options::breaker, &BreakerOptions::max_pause, use_facade)},
      {"max_solo_crashes", taker(&Options::max_solo_crashes, use_facade)},
      {"skip_recent", taker(&Options::skip_recent, use_facade)},
      {"lease.claim", taker(&Options::lease, &LeaseOptions::claim, use_facade, claims)}};
}

std::map<std::string, Taker> engine_takers() {
  return {{"DispatcherOptions.workers", taker(&DispatcherOptions::workers, use_dispatcher)},
          {"DispatcherOptions.retry.max_attempts",
           taker(&DispatcherOptions::retry, &RetryOptions::max_attempts, use_dispatcher)},
          {"InstanceOptions.lease", taker(&InstanceOptions::lease, use_instance)},
          {"InstanceOptions.lock_timeout",
           taker(&InstanceOptions::lock_timeout, use_instance, {.row_claims = true})},
          {"PollerOptions.batch", taker(&PollerOptions::batch, use_poller)},
          {"PollerOptions.interval", taker(&PollerOptions::interval, use_poller)},
          {"ListenerOptions.max_attempts", taker(&ListenerOptions::max_attempts, use_listener)},
          {"ListenerOptions.max_batch", taker(&ListenerOptions::max_batch, use_listener)},
          {"ExponentialBackoffOptions.base", taker(&ExponentialBackoffOptions::base, use_backoff)},
          {"ExponentialBackoffOptions.max", taker(&ExponentialBackoffOptions::max, use_backoff)},
          {"TracingOptions.sample_ratio", taker(&TracingOptions::sample_ratio, use_tracing)},
          {"timed_tracker", [](const std::string& value) {
             timed_tracker(milliseconds{std::stoll(value)});
             return std::string();
           }}};
}

std::map<std::string, Taker> operator_takers() {
  return {{"PurgeOptions.done_retention", taker(&PurgeOptions::done_retention, use_purge)},
          {"PurgeOptions.dead_retention", taker(&PurgeOptions::dead_retention, use_purge)},
          {"PurgeOptions.age", taker(&PurgeOptions::age, use_purge)},
          {"PurgeOptions.batch", taker(&PurgeOptions::batch, use_purge)},
          {"PurgeOptions.pause", taker(&PurgeOptions::pause, use_purge)},
          {"PurgeOptions.interval", taker(&PurgeOptions::interval, use_purge)},
          {"ReplaySchedule.interval", taker(&ReplaySchedule::interval, use_schedule)},
          {"ReplaySchedule.min_age", taker(&ReplaySchedule::min_age, use_schedule)},
          {"BulkOptions.batch", taker(&BulkOptions::batch, use_bulk)},
          {"BulkOptions.limit", taker(&BulkOptions::limit, use_bulk)},
          {"BulkOptions.rate", taker(&BulkOptions::rate, use_bulk)}};
}

std::map<std::string, Taker> other_takers() {
  using Http = http::ServerOptions;
  return {
      {"sqlite.Options.connections", taker(&sqlite::Options::connections, use_sqlite)},
      {"sqlite.Options.wait_timeout", taker(&sqlite::Options::wait_timeout, use_sqlite)},
      {"redis.Options.connections", taker(&redis::Options::connections, use_redis)},
      {"redis.Options.wait_timeout", taker(&redis::Options::wait_timeout, use_redis)},
      {"redis.Options.connect_timeout", taker(&redis::Options::connect_timeout, use_redis)},
      {"redis.Options.timeout", taker(&redis::Options::timeout, use_redis)},
      {"TrackerOptions.lease", taker(&TrackerOptions::lease, use_tracker)},
      {"TrackerOptions.retention", taker(&TrackerOptions::retention, use_tracker)},
      {"IdempotentOptions.ask_again", taker(&IdempotentOptions::ask_again, use_idempotent)},
      {"IdempotentOptions.finish_within", taker(&IdempotentOptions::finish_within, use_idempotent)},
      {"memory.Options.shards", taker(&memory::Options::shards, use_memory)},
      {"memory.Options.connections", taker(&memory::Options::connections, use_memory)},
      {"otlp.Options.capacity", taker(&otlp::Options::capacity, use_otlp)},
      {"otlp.Options.batch", taker(&otlp::Options::batch, use_otlp)},
      {"otlp.Options.interval", taker(&otlp::Options::interval, use_otlp)},
      {"otlp.Options.timeout", taker(&otlp::Options::timeout, use_otlp)},
      {"otlp.Options.max_pause", taker(&otlp::Options::max_pause, use_otlp)},
      {"otlp.Options.close_timeout", taker(&otlp::Options::close_timeout, use_otlp)},
      {"http.ServerOptions.workers", taker(&Http::workers, use_http)},
      {"http.ServerOptions.max_connections", taker(&Http::max_connections, use_http)},
      {"http.ServerOptions.max_header_bytes", taker(&Http::max_header_bytes, use_http)},
      {"http.ServerOptions.idle_timeout", taker(&Http::idle_timeout, use_http)}};
}

std::map<std::string, Taker> option_takers() {
  std::map<std::string, Taker> all;
  for (const auto& [name, take] : facade_takers()) all["option.Options." + name] = take;
  for (const auto& takers : {engine_takers(), operator_takers(), other_takers()}) {
    for (const auto& [name, take] : takers) all["option." + name] = take;
  }
  return all;
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
