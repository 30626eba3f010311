#include "outbox/event.h"

#include <utility>

#include "base/json.h"
#include "base/quote.h"
#include "base/time_text.h"
#include "base/utf8.h"
#include "outbox/error.h"

namespace outbox {
namespace {

// Neither payloads nor header values appear in messages: they may be secrets.

void check_payload(const Payload& payload) {
  if (payload.kind() == Payload::Kind::none) {
    throw MisuseError("event payload is missing, set it to json(...) or bytes(...)");
  }
  if (payload.data().size() > kMaxPayloadBytes) {
    throw MisuseError("event payload is " + std::to_string(payload.data().size()) +
                      " bytes long, at most " + std::to_string(kMaxPayloadBytes) + " are allowed");
  }
  if (payload.kind() == Payload::Kind::json) {
    if (const auto fault = check_json(payload.data())) {
      throw MisuseError("event payload is not JSON: " + std::string(fault->what) + " at byte " +
                        std::to_string(fault->offset) + "; use bytes(...) for anything else");
    }
  }
  check_text("event content_type", payload.content_type(), kMaxContentTypeLength);
}

void check_header_key(const std::string& key) {
  if (key.empty()) throw MisuseError("event header key is \"\", it must not be empty");
  if (!is_valid_utf8(key)) throw MisuseError("event header key must be UTF-8: " + quote(key));
  if (const std::size_t bad = find_control(key); bad < key.size()) {
    throw MisuseError("event header key must not contain control characters, as it does at byte " +
                      std::to_string(bad) + ": " + quote(key));
  }
}

void check_header_value(const std::string& key, const std::string& value) {
  const auto refuse = [&key](const std::string& rule, std::size_t offset) {
    throw MisuseError("event header " + quote(key) + " has a value that must " + rule +
                      " at byte " + std::to_string(offset));
  };
  if (const std::size_t bad = valid_utf8_prefix(value); bad < value.size()) {
    refuse("be UTF-8, which it is not", bad);
  }
  constexpr std::string_view kForbidden("\r\n\0", 3);
  if (const std::size_t bad = value.find_first_of(kForbidden); bad != value.npos) {
    refuse("not contain CR, LF or NUL, as it does (" + quote(value.substr(bad, 1)) + ")", bad);
  }
}

void check_time(std::string_view field, Time time) {
  if (time < kEarliestTime || kLatestTime < time) {
    throw MisuseError(std::string(field) + " is " + time_text(time) +
                      ", only the years 1000 to 9999 are allowed");
  }
}

Time available_at(const Draft& draft, Time now, Time occurred_at) {
  if (draft.deliver_at && draft.deliver_after) {
    throw MisuseError("event deliver_at (" + time_text(*draft.deliver_at) +
                      ") and deliver_after (" + std::to_string(draft.deliver_after->count()) +
                      " us) are both set, at most one is allowed");
  }
  if (draft.deliver_at) return *draft.deliver_at;
  if (!draft.deliver_after) return occurred_at;
  // The upper bound also keeps the sum from overflowing.
  if (draft.deliver_after->count() < 0 || *draft.deliver_after > kLatestTime - now) {
    throw MisuseError("event deliver_after is " + std::to_string(draft.deliver_after->count()) +
                      " us, it must not be negative nor reach beyond " + time_text(kLatestTime));
  }
  return now + *draft.deliver_after;
}

void check(const EventFields& fields) {
  check_name("event id", fields.id, kMaxIdLength);
  check_name("event type", fields.type, kMaxTypeLength);
  check_name("event aggregate_type", fields.aggregate_type, kMaxAggregateTypeLength);
  check_text("event aggregate_id", fields.aggregate_id, kMaxAggregateIdLength);
  check_text("event tenant_id", fields.tenant_id, kMaxTenantIdLength);
  for (const auto& [key, value] : fields.headers) {
    check_header_key(key);
    check_header_value(key, value);
  }
  check_payload(fields.payload);
  check_time("event occurred_at", fields.occurred_at);
  check_time("event available_at", fields.available_at);
  if (fields.available_at < fields.occurred_at) {
    throw MisuseError("event would be available at " + time_text(fields.available_at) +
                      ", before its occurred_at " + time_text(fields.occurred_at) +
                      "; set a later deliver_at or deliver_after");
  }
}

}  // namespace

Payload json(std::string text, std::string content_type) {
  return Payload(Payload::Kind::json, std::move(text), std::move(content_type));
}

Payload bytes(std::string data, std::string content_type) {
  return Payload(Payload::Kind::bytes, std::move(data), std::move(content_type));
}

Payload bytes(std::span<const std::byte> data, std::string content_type) {
  return bytes(std::string(reinterpret_cast<const char*>(data.data()), data.size()),
               std::move(content_type));
}

Event Event::restore(EventFields fields) {
  return Event(std::make_shared<const EventFields>(std::move(fields)));
}

std::optional<std::string_view> Event::header(std::string_view key) const {
  const auto found = fields_->headers.find(key);
  if (found == fields_->headers.end()) return std::nullopt;
  return found->second;
}

Event make_event(Draft draft, const Clock& clock) {
  const Time now = clock.now();
  const Time occurred_at = draft.occurred_at.value_or(now);
  EventFields fields{.id = draft.id ? *std::move(draft.id) : new_id(clock),
                     .type = draft.type.str(),
                     .aggregate_type = draft.aggregate_type.str(),
                     .aggregate_id = draft.aggregate_id.str(),
                     .tenant_id = draft.tenant_id.str(),
                     .headers = std::move(draft.headers),
                     .payload = std::move(draft.payload),
                     .occurred_at = occurred_at,
                     .available_at = available_at(draft, now, occurred_at),
                     .delay = draft.deliver_after};
  check(fields);
  return Event::restore(std::move(fields));
}

}  // namespace outbox
