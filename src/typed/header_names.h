// The headers of domain events; docs/patterns.md lists them for other programs.
#pragma once

#include <string_view>

namespace outbox {

inline constexpr std::string_view kEventIdHeader = "event-id";
inline constexpr std::string_view kEventVersionHeader = "event-version";
inline constexpr std::string_view kPublicIdHeader = "public-id";
inline constexpr std::string_view kAggregateVersionHeader = "aggregate-version";
inline constexpr std::string_view kTraceIdHeader = "trace-id";
inline constexpr std::string_view kRequestIdHeader = "request-id";
inline constexpr std::string_view kOperatorHeader = "operator";
inline constexpr std::string_view kTenantIdHeader = "tenant-id";

}  // namespace outbox
