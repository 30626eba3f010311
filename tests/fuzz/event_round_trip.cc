// Drafts of any content: refused with MisuseError, or the same after a way
// through SQLite. A line of the input is `field=value`, with escapes.h in it.
#include <charconv>
#include <optional>

#include "escapes.h"
#include "no_log.h"
#include "outbox/admin/admin.h"
#include "outbox/error.h"
#include "outbox/event.h"
#include "outbox/sqlite.h"
#include "support/temporary_directory.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

std::optional<std::int64_t> integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Time> time(const std::string& text) {
  const auto value = integer(text);
  return value ? std::optional(Time{std::chrono::microseconds{*value}}) : std::nullopt;
}

Draft draft_of(std::string_view input) {
  Draft draft;
  std::optional<std::string> content_type;
  std::optional<std::string> json_text;
  std::optional<std::string> data;
  for (const std::string_view line : lines_of(input)) {
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    const std::string_view field = line.substr(0, equals);
    const std::string_view raw = line.substr(equals + 1);
    const std::string value = unescape(raw);
    if (field == "id") draft.id = value;
    if (field == "type") draft.type = value;
    if (field == "aggregate_type") draft.aggregate_type = value;
    if (field == "aggregate_id") draft.aggregate_id = value;
    if (field == "tenant_id") draft.tenant_id = value;
    if (field == "content_type") content_type = value;
    if (field == "json") json_text = value;
    if (field == "bytes") data = value;
    if (field == "occurred_at") draft.occurred_at = time(value);
    if (field == "deliver_at") draft.deliver_at = time(value);
    if (field == "deliver_after") {
      if (const auto span = integer(value)) draft.deliver_after = std::chrono::microseconds{*span};
    }
    if (field == "header") {
      const std::size_t colon = std::min(raw.find(':'), raw.size());
      const std::size_t after = std::min(colon + 1, raw.size());
      draft.headers[unescape(raw.substr(0, colon))] = unescape(raw.substr(after));
    }
  }
  if (json_text) draft.payload = content_type ? json(*json_text, *content_type) : json(*json_text);
  if (data) draft.payload = content_type ? bytes(*data, *content_type) : bytes(*data);
  return draft;
}

Store& store() {
  static const test::TemporaryDirectory directory;
  static const auto opened = sqlite::open(
      directory.file("events.db"), {.durability = sqlite::Durability::normal, .log = no_log()});
  return *opened;
}

void check_same(const Event& read, const Event& written) {
  require(read.id() == written.id(), "the id comes back");
  require(read.type() == written.type(), "the type comes back");
  require(read.aggregate_type() == written.aggregate_type(), "the aggregate type comes back");
  require(read.aggregate_id() == written.aggregate_id(), "the aggregate id comes back");
  require(read.tenant_id() == written.tenant_id(), "the tenant comes back");
  require(read.headers() == written.headers(), "the headers come back");
  require(read.payload() == written.payload(), "the payload comes back");
  require(read.is_json() == written.is_json(), "the kind of payload comes back");
  require(read.content_type() == written.content_type(), "the content type comes back");
  require(read.occurred_at() == written.occurred_at(), "the time it occurred comes back");
  require(read.available_at() == written.available_at(), "the time it is due comes back");
}

void check_round_trip(const Event& event) {
  {
    const auto connection = store().connect();
    connection->begin();
    connection->insert({&event, 1}, {});
    connection->commit();
  }
  const auto record = store().admin().find(event.id());
  require(record.has_value(), "what was written is found");
  require(record->row.defect.empty(), "what was written has no defect");
  check_same(record->row.event, event);

  const auto connection = store().connect();
  connection->begin();
  connection->execute("DELETE FROM outbox_event", {});
  connection->commit();
}

}  // namespace
}  // namespace outbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox::fuzz;
  std::optional<outbox::Event> event;
  try {
    event = outbox::make_event(draft_of(text_of(data, size)));
  } catch (const outbox::MisuseError& error) {
    require(std::string_view(error.what()).starts_with("event "), "the message names the field");
  }
  if (event) check_round_trip(*event);
  return 0;
}
