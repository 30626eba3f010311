// OTLP's JSON: ids in hexadecimal, 64-bit numbers as strings, enums as numbers.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "outbox/telemetry/tracing.h"

namespace outbox::otlp {

// The resource as it is in every request.
std::string resource_json(const std::string& service_name,
                          const std::map<std::string, std::string>& attributes);

// The body of a request.
std::string request_json(std::string_view resource, std::span<const Span> spans);

// How many spans the collector did not take although it answered 200; 0 if the
// answer does not say.
std::uint64_t rejected_spans(std::string_view answer);

}  // namespace outbox::otlp
