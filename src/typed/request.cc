#include "outbox/typed/request.h"

#include <utility>

#include "typed/header_names.h"

namespace outbox {
namespace {

thread_local RequestContext current;

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

}  // namespace outbox
