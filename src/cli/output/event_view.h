// Events on paper: as rows, as a page, as JSON.
//
// Payloads and the values of headers may hold secrets: only what asks for them
// by name prints them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cli/output/console.h"
#include "cli/output/text.h"
#include "outbox/admin/admin.h"

namespace outbox::cli {

enum class Detail : std::uint8_t {
  summary,   // neither payload nor headers
  payload,   // the payload too
  complete,  // both
};

// The payload is exact: `payload` holds JSON text as a string, `payload_base64`
// bytes. `state` is waiting_text().
JsonObject event_json(const EventRecord& record, Detail detail, Time now);

// "ready", "delayed", "held", "finished", or "claimed": why it is where it is.
std::string waiting_text(const EventRecord& record, Time now);

Style style_of(Status status);

// A table of many.
enum class ShownTime : std::uint8_t { occurred, finished };
void print_events(const Console& console, std::span<const EventRecord> records, ShownTime time);

// One line, for those who watch them come.
std::string event_line(const EventRecord& record, bool color);

// All about one.
void print_event(const Console& console, const EventRecord& record, Time now);

// The payload on one line: JSON text with its control characters as escapes,
// bytes as base64.
std::string payload_text(const Event& event);

}  // namespace outbox::cli
