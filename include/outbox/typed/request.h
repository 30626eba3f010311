// The request that the calling thread works for; recorded in the events that it publishes.
#pragma once

#include <string>

#include "outbox/event.h"
#include "outbox/export.h"

namespace outbox {

// An empty member is unknown.
struct RequestContext {
  std::string request_id{};
  std::string operator_id{};  // who asked for it: a user, a job
  std::string tenant_id{};

  // For programs with tracing of their own; current_trace() of tracing.h takes precedence.
  std::string trace_id{};

  friend bool operator==(const RequestContext&, const RequestContext&) = default;
};

// All empty if the thread is in no scope.
OUTBOX_EXPORT RequestContext current_request();

// Makes a context the current one of this thread until the end of the scope, which
// restores the previous one:
//
//   outbox::RequestScope scope{{.request_id = request.id(), .operator_id = user.name()}};
//
// Scopes of a thread end in reverse order. One object belongs to one thread.
class OUTBOX_EXPORT RequestScope {
 public:
  explicit RequestScope(RequestContext context);
  ~RequestScope();
  RequestScope(const RequestScope&) = delete;
  RequestScope& operator=(const RequestScope&) = delete;

 private:
  RequestContext outer_;
};

// The request that an event comes from, by its headers.
OUTBOX_EXPORT RequestContext request_of(const Event& event);

}  // namespace outbox
