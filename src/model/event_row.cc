#include "model/event_row.h"

#include <cstddef>
#include <exception>
#include <unordered_set>
#include <utility>

#include "base/bounded.h"

namespace outbox {
namespace {

std::string_view default_content_type(bool is_json) {
  return is_json ? "application/json" : "application/octet-stream";
}

// The engine counts on from here: whatever another program stored must not
// overflow, nor make an event that has used up its attempts look fresh.
constexpr std::int64_t kMostCounted = 1'000'000'000;

int decode_count(std::int64_t stored, const char* name, std::string& defect) {
  const std::int64_t count = std::clamp<std::int64_t>(stored, 0, kMostCounted);
  if (count != stored) {
    add_defect(defect, std::string(name) + " is " + std::to_string(stored) +
                           ", not between 0 and " + std::to_string(kMostCounted));
  }
  return static_cast<int>(count);
}

// What no Status names is not cut to one that it resembles.
Status status_of(std::int64_t stored) {
  const bool known = stored >= 0 && stored <= static_cast<std::int64_t>(Status::dead);
  return known ? static_cast<Status>(stored) : Status{255};
}

Headers decode_headers(std::string_view text, const JsonCodec& codec, std::string& defect) {
  if (text.empty()) return {};
  try {
    return codec.decode(text);
  } catch (const std::exception& error) {
    add_defect(defect, std::string("headers cannot be decoded: ") + error.what());
    return {};
  }
}

Payload payload_of(const RowColumns& columns) {
  std::string content_type(columns.content_type.value_or(default_content_type(columns.is_json)));
  std::string data(columns.payload);
  return columns.is_json ? json(std::move(data), std::move(content_type))
                         : bytes(std::move(data), std::move(content_type));
}

}  // namespace

OptionalText content_type_of(const Event& event) {
  if (event.content_type() == default_content_type(event.is_json())) return std::nullopt;
  return event.content_type();
}

std::string encoded_headers(const Event& event, const JsonCodec& codec) {
  return event.headers().empty() ? std::string() : codec.encode(event.headers());
}

Row decode(RowColumns columns, const JsonCodec& codec) {
  std::string& defect = columns.defect;
  EventFields fields;
  fields.id = columns.event_id;
  fields.type = columns.event_type;
  if (fields.type.empty()) add_defect(defect, "event_type is empty");
  if (!columns.aggregate_type.empty()) fields.aggregate_type = columns.aggregate_type;
  fields.aggregate_id = columns.aggregate_id;
  fields.tenant_id = columns.tenant_id;
  fields.headers = decode_headers(columns.headers, codec, defect);
  fields.payload = payload_of(columns);
  fields.occurred_at = columns.created_at;
  fields.available_at = columns.available_at;
  const int attempts = decode_count(columns.attempts, "attempts", defect);
  const int crashes = decode_count(columns.crashes, "crashes", defect);
  // What cannot be delivered need not wait for its time, which may never come.
  const auto available_in = defect.empty()
                                ? internal::bounded(columns.available_at - columns.read_at)
                                : std::chrono::microseconds{0};
  return Row{
      .ref = columns.ref,
      .event = Event::restore(std::move(fields)),
      .status = status_of(columns.status),
      .attempts = attempts,
      .crashes = crashes,
      .progress = std::string(columns.progress),
      .available_in = available_in,
      .defect = std::move(defect),
  };
}

void add_defect(std::string& defect, std::string_view reason) {
  if (!defect.empty()) defect.append("; ");
  defect.append(reason);
}

std::span<const StatusUpdate> first_of_each_row(std::span<const StatusUpdate> updates) {
  std::unordered_set<Seq> seen;
  std::size_t count = 0;
  while (count < updates.size() && seen.insert(updates[count].row.seq).second) ++count;
  return updates.first(count);
}

bool already_applied(const StatusUpdate& update, const RowState& row,
                     const std::optional<std::string_view>& claim_owner) {
  const bool pending = row.status == Status::pending || row.status == Status::retry;
  const bool finished_by_us = !pending && (!claim_owner || row.locked_by == *claim_owner);
  const bool given_back = pending && row.locked_by.empty();
  switch (update.kind) {
    case StatusUpdate::Kind::done:
      return finished_by_us && row.status == Status::done;
    case StatusUpdate::Kind::dead:
      return finished_by_us && row.status == Status::dead;
    case StatusUpdate::Kind::retry:
      return given_back && row.status == Status::retry && row.attempts == update.attempts &&
             row.last_error == update.error;
    case StatusUpdate::Kind::defer:
    case StatusUpdate::Kind::hold:
      return given_back && row.hold.value_or(0) != 0;
    case StatusUpdate::Kind::unblock:
      return finished_by_us && row.status == Status::dead && !row.hold;
    case StatusUpdate::Kind::crashes:
      return false;
  }
  return false;
}

}  // namespace outbox
