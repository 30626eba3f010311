#include "telemetry/otlp/json.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <variant>

#include "base/utf8.h"

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
  append_json(out, key);
  out += R"(,"value":{"stringValue":)";
  append_json(out, value);
  out += "}}";
}

void append_attribute(std::string& out, std::string_view key, std::int64_t value) {
  out += R"({"key":)";
  append_json(out, key);
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
    append_json(out, span.context.state);
  }
  out += R"(,"flags":)";
  out += span.context.sampled ? '1' : '0';
  out += R"(,"name":)";
  append_json(out, span.name);
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
    append_json(out, span.error);
  }
  out += "}}";
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    const char c = text.front();
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += "\\u00";
      out += kDigits[static_cast<unsigned char>(c) >> 4U];
      out += kDigits[static_cast<unsigned char>(c) & 15U];
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out += '"';
}

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
  constexpr std::string_view kKey = "\"rejectedSpans\"";
  const std::size_t key = answer.find(kKey);
  if (key == answer.npos) return 0;
  answer.remove_prefix(key + kKey.size());
  const std::size_t value = answer.find_first_not_of(" \t\r\n:\"");
  if (value == answer.npos) return 0;
  std::uint64_t rejected = 0;
  const char* end = answer.data() + answer.size();
  const auto result = std::from_chars(answer.data() + value, end, rejected);
  return result.ec == std::errc() ? rejected : 0;
}

}  // namespace outbox::otlp
