#include "cli/output/event_view.h"

#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/time_text.h"
#include "base/utf8.h"
#include "cli/output/text.h"

namespace outbox::cli {
namespace {

bool is_text(const Event& event) { return event.is_json() && is_valid_utf8(event.payload()); }

std::string aggregate_of(const Event& event) {
  if (event.aggregate_id().empty()) {
    return event.aggregate_type() == kGlobalAggregate ? "" : event.aggregate_type();
  }
  return event.aggregate_type() + "/" + event.aggregate_id();
}

const std::string& error_of(const EventRecord& record) {
  return record.row.defect.empty() ? record.last_error : record.row.defect;
}

}  // namespace

Style style_of(Status status) {
  switch (status) {
    case Status::pending:
      break;
    case Status::done:
      return Style::good;
    case Status::retry:
      return Style::warning;
    case Status::dead:
      return Style::bad;
  }
  return Style::plain;
}

std::string waiting_text(const EventRecord& record, Time now) {
  if (!record.locked_by.empty()) return "claimed";
  if (!record.hold) return "finished";
  if (*record.hold > 0) return "held";
  if (*record.hold < 0 && -*record.hold > now.time_since_epoch().count()) return "delayed";
  return "ready";
}

JsonObject event_json(const EventRecord& record, Detail detail, Time now) {
  const Event& event = record.row.event;
  JsonObject object;
  object.add("seq", record.row.ref.seq)
      .add("id", event.id())
      .add("status", to_string(record.row.status))
      .add("type", event.type())
      .add("aggregate_type", event.aggregate_type())
      .add_or_null("aggregate_id", event.aggregate_id())
      .add_or_null("tenant_id", event.tenant_id())
      .add("occurred_at", event.occurred_at())
      .add("available_at", event.available_at())
      .add("finished_at", record.done_at)
      .add("attempts", record.row.attempts)
      .add("crashes", record.row.crashes)
      .add("state", std::string_view(waiting_text(record, now)))
      .add_or_null("locked_by", record.locked_by)
      .add_or_null("progress", record.row.progress)
      .add_or_null("last_error", record.last_error)
      .add_or_null("defect", record.row.defect)
      .add("content_type", event.content_type())
      .add("payload_bytes", static_cast<std::int64_t>(event.payload().size()));
  if (detail == Detail::complete) {
    JsonObject headers;
    for (const auto& [key, value] : event.headers()) headers.add(key, std::string_view(value));
    object.add("headers", headers);
  }
  if (detail != Detail::summary) {
    if (is_text(event)) {
      object.add("payload", event.payload());
    } else {
      object.add("payload_base64", base64(event.payload()));
    }
  }
  return object;
}

void print_events(const Console& console, std::span<const EventRecord> records, ShownTime time) {
  const bool finished = time == ShownTime::finished;
  Table table({{.title = "SEQ", .right = true},
               {.title = "ID"},
               {.title = "STATUS"},
               {.title = "TYPE", .shrinks = true},
               {.title = "AGGREGATE", .shrinks = true, .optional = true},
               {.title = finished ? "DIED (UTC)" : "OCCURRED (UTC)"},
               {.title = "TRIES", .right = true},
               {.title = "LAST ERROR", .shrinks = true, .optional = true}});
  for (const EventRecord& record : records) {
    const Event& event = record.row.event;
    table.add({std::to_string(record.row.ref.seq),
               event.id(),
               {std::string(to_string(record.row.status)), style_of(record.row.status)},
               event.type(),
               aggregate_of(event),
               {short_time_text(finished && record.done_at ? *record.done_at : event.occurred_at()),
                Style::faint},
               std::to_string(record.row.attempts),
               error_of(record)});
  }
  console.print(table);
}

std::string event_line(const EventRecord& record, bool color) {
  const Event& event = record.row.event;
  std::string line = styled(short_time_text(event.occurred_at()), Style::faint, color) + "  " +
                     std::to_string(record.row.ref.seq) + "  " + printable(event.id()) + "  " +
                     styled(to_string(record.row.status), style_of(record.row.status), color) +
                     "  " + styled(printable(event.type()), Style::bold, color);
  if (const std::string aggregate = aggregate_of(event); !aggregate.empty()) {
    line += "  " + printable(aggregate);
  }
  return line;
}

std::string payload_text(const Event& event) {
  return is_text(event) ? printable(event.payload()) : base64(event.payload());
}

void print_event(const Console& console, const EventRecord& record, Time now) {
  const Event& event = record.row.event;
  const auto line = [&](std::string_view name, std::string_view value, Style style = Style::plain) {
    if (value.empty()) return;
    console.out << console.paint(pad(name, 15), Style::bold)
                << console.paint(printable(value), style) << '\n';
  };
  std::string state(to_string(record.row.status));
  if (const std::string waiting = waiting_text(record, now); waiting != "finished") {
    state += ", " + waiting;
  }
  line("id", event.id());
  line("seq", std::to_string(record.row.ref.seq));
  line("status", state, style_of(record.row.status));
  line("type", event.type());
  line("aggregate", aggregate_of(event));
  line("tenant", event.tenant_id());
  line("occurred", time_text(event.occurred_at()));
  if (event.available_at() != event.occurred_at()) {
    line("available", time_text(event.available_at()));
  }
  if (record.done_at) line("finished", time_text(*record.done_at));
  line("attempts", std::to_string(record.row.attempts));
  if (record.row.crashes > 0) line("crashes", std::to_string(record.row.crashes), Style::warning);
  line("delivered to", record.row.progress);
  line("locked by", record.locked_by);
  line("last error", record.last_error, Style::bad);
  line("defect", record.row.defect, Style::bad);
  for (const auto& [key, value] : event.headers()) {
    line("header", std::string(key).append(": ").append(value));
  }
  const std::string encoding = is_text(event) ? "" : ", shown as base64";
  line("content type", event.content_type());
  line("payload", grouped(static_cast<std::int64_t>(event.payload().size())) + " bytes" + encoding);
  console.out << '\n'
              << (is_text(event) ? printable_lines(event.payload()) : base64(event.payload()))
              << '\n';
}

}  // namespace outbox::cli
