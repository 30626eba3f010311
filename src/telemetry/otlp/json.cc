#include "telemetry/otlp/json.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <variant>

#include "base/json.h"

namespace outbox::otlp {
namespace {

// SpanKind and Status.StatusCode of opentelemetry/proto/trace/v1/trace.proto.
constexpr int kProducer = 4;
constexpr int kConsumer = 5;
constexpr int kError = 2;

void append_key(std::string& out, std::string_view key) {
  out += '"';
  out += key;
  out += "\":";
}

void append_attribute(std::string& out, std::string_view key, std::string_view value) {
  out += R"({"key":)";
  append_json_string(out, key);
  out += R"(,"value":{"stringValue":)";
  append_json_string(out, value);
  out += "}}";
}

void append_attribute(std::string& out, std::string_view key, std::int64_t value) {
  out += R"({"key":)";
  append_json_string(out, key);
  out += R"(,"value":{"intValue":")";
  out += std::to_string(value);
  out += "\"}}";
}

void append_time(std::string& out, std::string_view key, Time time) {
  const auto since = std::chrono::nanoseconds(time.time_since_epoch()).count();
  append_key(out, key);
  out += '"';
  out += std::to_string(std::max<std::int64_t>(since, 0));  // it is unsigned there
  out += '"';
}

void append_span(std::string& out, const Span& span) {
  out += R"({"traceId":")" + to_string(span.context.trace_id) + R"(","spanId":")" +
         to_string(span.context.span_id) + '"';
  if (span.parent != SpanId{}) out += R"(,"parentSpanId":")" + to_string(span.parent) + '"';
  if (!span.context.state.empty()) {
    out += R"(,"traceState":)";
    append_json_string(out, span.context.state);
  }
  out += R"(,"flags":)";
  out += span.context.sampled ? '1' : '0';
  out += R"(,"name":)";
  append_json_string(out, span.name);
  out += R"(,"kind":)";
  out += std::to_string(span.kind == Span::Kind::producer ? kProducer : kConsumer);
  out += ',';
  append_time(out, "startTimeUnixNano", span.start);
  out += ',';
  append_time(out, "endTimeUnixNano", span.end);
  out += R"(,"attributes":[)";
  bool first = true;
  for (const Span::Attribute& attribute : span.attributes) {
    if (!first) out += ',';
    first = false;
    std::visit([&](const auto& value) { append_attribute(out, attribute.key, value); },
               attribute.value);
  }
  out += R"(],"status":{)";
  if (span.failed) {
    out += R"("code":)" + std::to_string(kError) + R"(,"message":)";
    append_json_string(out, span.error);
  }
  out += "}}";
}

}  // namespace

std::string resource_json(const std::string& service_name,
                          const std::map<std::string, std::string>& attributes) {
  std::string out = R"({"attributes":[)";
  append_attribute(out, "service.name", service_name);
  for (const auto& [key, value] : attributes) {
    out += ',';
    append_attribute(out, key, value);
  }
  out += "]}";
  return out;
}

std::string request_json(std::string_view resource, std::span<const Span> spans) {
  constexpr std::size_t kUsualSize = 900;
  std::string out;
  out.reserve(resource.size() + 128 + spans.size() * kUsualSize);
  out += R"({"resourceSpans":[{"resource":)";
  out += resource;
  out += R"(,"scopeSpans":[{"scope":{"name":"outbox"},"spans":[)";
  for (const Span& span : spans) {
    if (&span != spans.data()) out += ',';
    append_span(out, span);
  }
  out += "]}]}]}";
  return out;
}

std::uint64_t rejected_spans(std::string_view answer) {
  // {"partialSuccess":{"rejectedSpans":"3",...}}, the number with quotes or
  // without. Nothing else in an answer has that key.
  if (check_json(answer)) return 0;
  JsonScanner scanner(answer);
  bool is_next = false;
  for (char begin = scanner.next(); begin != '\0'; begin = scanner.next()) {
    std::string word;
    if (begin == '"') {
      if (scanner.read_string(word)) return 0;
    } else if (std::string_view("{}[]").find(begin) != std::string_view::npos) {
      scanner.skip_bracket();
    } else {
      word = scanner.read_word();
    }
    if (is_next) {
      std::uint64_t rejected = 0;
      const auto result = std::from_chars(word.data(), word.data() + word.size(), rejected);
      return result.ec == std::errc() ? rejected : 0;
    }
    is_next = word == "rejectedSpans";
  }
  return 0;
}

}  // namespace outbox::otlp
