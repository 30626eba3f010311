// What of an event goes into which column.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/postgres/statement.h"
#include "outbox/event.h"
#include "outbox/spi/json_codec.h"
#include "store/common/rows.h"

namespace outbox::postgres {

// See hold_of().
inline std::vector<std::int64_t> holds_of(std::span<const Event> events, Time now) {
  std::vector<std::int64_t> holds;
  for (const Event& event : events) holds.push_back(hold_of(event, now));
  return holds;
}

// What the statements take for a row that waits for a delay: the delay as a time since 1970,
// and a hold that no new row has. The server makes both from its own time.
inline Time available_of(const Event& event, std::int64_t hold) {
  const auto delay = delay_of(event, hold);
  return delay ? Time{*delay} : event.available_at();
}
inline std::int64_t inserted_hold(const Event& event, std::int64_t hold) {
  return delay_of(event, hold) ? 1 : hold;
}

// The columns of several events as arrays, and the owner: what the statements for many
// take. `Values` is made of them.
template <class Values>
Values columns_of(std::span<const Event> events, std::span<const std::int64_t> holds,
                  OptionalText owner, const JsonCodec& codec) {
  std::vector<OptionalText> ids, types, aggregate_types, aggregate_ids, tenants, content_types,
      headers, payloads;
  std::vector<std::optional<Bytes>> payload_bytes;
  std::vector<std::int64_t> occurred, available, inserted;
  std::vector<std::string> encoded;  // what `headers` points to
  encoded.reserve(events.size());
  for (const Event& event : events) {
    encoded.push_back(encoded_headers(event, codec));
    ids.emplace_back(event.id());
    types.emplace_back(event.type());
    aggregate_types.emplace_back(event.aggregate_type());
    aggregate_ids.push_back(null_if_empty(event.aggregate_id()));
    tenants.push_back(null_if_empty(event.tenant_id()));
    content_types.push_back(content_type_of(event));
    headers.push_back(null_if_empty(encoded.back()));
    const std::string_view payload = event.payload();
    payloads.push_back(event.is_json() ? OptionalText(payload) : std::nullopt);
    payload_bytes.push_back(event.is_json() ? std::nullopt : std::optional(Bytes{payload}));
    occurred.push_back(micros(event.occurred_at()));
    available.push_back(micros(available_of(event, holds[available.size()])));
    inserted.push_back(inserted_hold(event, holds[inserted.size()]));
  }
  return Values(ids, types, aggregate_types, aggregate_ids, tenants, content_types, headers,
                payloads, payload_bytes, occurred, available, inserted, owner);
}

}  // namespace outbox::postgres
