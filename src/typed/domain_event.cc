#include "outbox/typed/domain_event.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <system_error>
#include <utility>

#include "base/quote.h"
#include "base/utf8.h"
#include "outbox/error.h"
#include "outbox/telemetry/tracing.h"
#include "outbox/typed/request.h"

namespace outbox {
namespace {

// docs/patterns.md lists them for other programs.
constexpr std::string_view kEventIdHeader = "event-id";
constexpr std::string_view kEventVersionHeader = "event-version";
constexpr std::string_view kPublicIdHeader = "public-id";
constexpr std::string_view kAggregateVersionHeader = "aggregate-version";
constexpr std::string_view kTraceIdHeader = "trace-id";
constexpr std::string_view kRequestIdHeader = "request-id";
constexpr std::string_view kOperatorHeader = "operator";
constexpr std::string_view kTenantIdHeader = "tenant-id";

thread_local RequestContext current;

template <class T>
std::optional<T> integer_of(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || rest != end) return std::nullopt;
  return value;
}

// Headers that are there already are the user's.
void add_header(Headers& headers, std::string_view key, std::string_view value) {
  if (!value.empty()) headers.emplace(key, value);
}

std::string current_trace_id(const RequestContext& request) {
  const std::optional<TraceContext> trace = current_trace();
  return trace ? to_string(trace->trace_id) : request.trace_id;
}

class InRequestScope final : public Listener {
 public:
  explicit InRequestScope(std::shared_ptr<Listener> inner) : inner_(std::move(inner)) {}

  Outcome on_event(const Event& event, const Delivery& delivery) override {
    const RequestScope scope(request_of(event));
    return inner_->on_event(event, delivery);
  }

 private:
  const std::shared_ptr<Listener> inner_;
};

}  // namespace

RequestContext current_request() { return current; }

RequestScope::RequestScope(RequestContext context)
    : outer_(std::exchange(current, std::move(context))) {}

RequestScope::~RequestScope() { current = std::move(outer_); }

RequestContext request_of(const Event& event) {
  const auto header = [&event](std::string_view key) {
    return std::string(event.header(key).value_or(std::string_view()));
  };
  return {.request_id = header(kRequestIdHeader),
          .operator_id = header(kOperatorHeader),
          .tenant_id = event.tenant_id().empty() ? header(kTenantIdHeader) : event.tenant_id(),
          .trace_id = header(kTraceIdHeader)};
}

std::optional<std::int64_t> aggregate_version(const Event& event) {
  const auto text = event.header(kAggregateVersionHeader);
  if (!text) return std::nullopt;
  const auto version = integer_of<std::int64_t>(*text);
  if (!version) {
    throw PermanentError("header \"" + std::string(kAggregateVersionHeader) + "\" of event " +
                         event.id() + " is " + quote(*text) + ", an integer is needed");
  }
  return version;
}

namespace typed {

void check_event_description(const EventNames& names, const std::vector<int>& upcasts) {
  check_name("described event type", names.type, kMaxTypeLength);
  check_name("described aggregate type", names.aggregate_type, kMaxAggregateTypeLength);
  if (names.version < 1) {
    throw MisuseError("the description of " + std::string(names.type) + " says version " +
                      std::to_string(names.version) + ", versions begin with 1");
  }
  for (auto from = upcasts.begin(); from != upcasts.end(); ++from) {
    if (*from < 1 || names.version <= *from) {
      throw MisuseError("the description of " + std::string(names.type) + " has an upcast from " +
                        std::to_string(*from) + " but is of version " +
                        std::to_string(names.version) + ", upcasts begin at a version before that");
    }
    if (std::find(upcasts.begin(), from, *from) != from) {
      throw MisuseError("the description of " + std::string(names.type) +
                        " has two upcasts from version " + std::to_string(*from));
    }
  }
}

Draft make_draft(const EventNames& names, DraftParts parts, PublishOptions options) {
  const RequestContext request = current_request();
  Draft draft{.type = names.type,
              .aggregate_type = names.aggregate_type,
              .aggregate_id = std::move(parts.aggregate_id),
              .payload = std::move(parts.payload),
              .headers = std::move(options.headers),
              .deliver_at = options.deliver_at,
              .deliver_after = options.deliver_after,
              .id = options.id ? *std::move(options.id) : new_id(),
              .occurred_at = options.occurred_at};
  Headers& headers = draft.headers;
  add_header(headers, kEventIdHeader, *draft.id);
  add_header(headers, kEventVersionHeader, std::to_string(names.version));
  add_header(headers, kPublicIdHeader, parts.public_id.value_or(""));
  add_header(headers, kAggregateVersionHeader, parts.aggregate_version.value_or(""));
  add_header(headers, kTraceIdHeader, current_trace_id(request));
  add_header(headers, kRequestIdHeader, request.request_id);
  add_header(headers, kOperatorHeader, request.operator_id);
  add_header(headers, kTenantIdHeader, request.tenant_id);
  // The column says what the header does, no matter who set it.
  if (const auto tenant = headers.find(kTenantIdHeader); tenant != headers.end()) {
    draft.tenant_id = tenant->second;
  }
  return draft;
}

std::string event_subject(const EventNames& names, int version) {
  std::string subject = std::string(names.type) + " version " + std::to_string(version);
  if (version < names.version) subject += " (brought to " + std::to_string(names.version) + ")";
  return subject;
}

int payload_version(const EventNames& names, const Event& event) {
  if (event.type() != names.type || event.aggregate_type() != names.aggregate_type) {
    throw PermanentError("event " + event.id() + " is of type " + event.aggregate_type() + "/" +
                         event.type() + ", " + std::string(names.aggregate_type) + "/" +
                         std::string(names.type) + " is wanted");
  }
  const auto text = event.header(kEventVersionHeader);
  if (!text) return 1;
  const auto version = integer_of<int>(*text);
  if (!version || *version < 1) {
    throw PermanentError("header \"" + std::string(kEventVersionHeader) + "\" of " +
                         std::string(names.type) + " is " + quote(*text) +
                         ", a number from 1 on is wanted");
  }
  if (*version > names.version) {
    throw PermanentError(std::string(names.type) + " is of version " + std::to_string(*version) +
                         ", versions up to " + std::to_string(names.version) +
                         " are known here: update this consumer, then replay the event");
  }
  return *version;
}

JsonValue json_payload(const EventNames& names, int version, const Event& event) {
  if (!event.is_json()) {
    throw PermanentError(event_subject(names, version) + ": found a payload of bytes (" +
                         quote(event.content_type()) + "), wanted JSON");
  }
  return blaming_payload(names, version, [&] { return JsonValue::parse(event.payload()); });
}

void refuse_old_version(const EventNames& names, int version, int missing) {
  throw PermanentError(std::string(names.type) + " is of version " + std::to_string(version) +
                       ", and its description has no .upcast(" + std::to_string(missing) +
                       ", ...) on the way to version " + std::to_string(names.version));
}

void rethrow_for_payload(const EventNames& names, int version) {
  const std::string subject = event_subject(names, version) + ": ";
  try {
    throw;
  } catch (const RetryableError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;  // which is not the payload's fault
  } catch (const std::exception& error) {
    throw PermanentError(subject + error.what());
  } catch (...) {
    throw PermanentError(subject + "something that is not a std::exception was thrown");
  }
}

std::shared_ptr<Listener> in_request_scope(std::shared_ptr<Listener> inner) {
  if (!inner) return nullptr;
  return std::make_shared<InRequestScope>(std::move(inner));
}

}  // namespace typed
}  // namespace outbox
