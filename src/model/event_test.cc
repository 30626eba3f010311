#include "outbox/event.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <ratio>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/error.h"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

enum class OrderEvent { placed, shipped };
std::string_view outbox_name(OrderEvent e) {
  return e == OrderEvent::placed ? "OrderPlaced" : "OrderShipped";
}

class FixedClock final : public Clock {
 public:
  Time now() const override { return Time{1'700'000'000s}; }
  Steady steady() const override { return {}; }
};

const FixedClock kClock;
const Time kNow = kClock.now();

Draft good() { return {.type = "OrderPlaced", .payload = json("{}")}; }

// n code points of two bytes each.
std::string umlauts(std::size_t n) {
  std::string text;
  while (n-- > 0) text += "ä";
  return text;
}

// --- What is filled in and kept ---

TEST(Event, FillsInWhatTheDraftLeavesOpen) {
  const Event event = make_event(good(), kClock);
  EXPECT_EQ(event.id().size(), 26U);
  EXPECT_EQ(event.type(), "OrderPlaced");
  EXPECT_EQ(event.aggregate_type(), "__GLOBAL__");
  EXPECT_EQ(event.aggregate_id(), "");
  EXPECT_EQ(event.tenant_id(), "");
  EXPECT_TRUE(event.headers().empty());
  EXPECT_TRUE(event.is_json());
  EXPECT_EQ(event.content_type(), "application/json");
  EXPECT_EQ(event.occurred_at(), kNow);
  EXPECT_EQ(event.available_at(), kNow);
}

TEST(Event, KeepsWhatTheDraftSays) {
  const Event event = make_event({.type = OrderEvent::shipped,
                                  .aggregate_type = "Order",
                                  .aggregate_id = "42",
                                  .payload = json(" { } ", "application/cloudevents+json"),
                                  .headers = {{"trace", "ä\t"}, {"a", ""}},
                                  .tenant_id = "acme",
                                  .deliver_at = kNow + 1h,
                                  .id = "my-id",
                                  .occurred_at = kNow - 1h},
                                 kClock);
  EXPECT_EQ(event.id(), "my-id");
  EXPECT_EQ(event.type(), "OrderShipped");
  EXPECT_EQ(event.aggregate_type(), "Order");
  EXPECT_EQ(event.aggregate_id(), "42");
  EXPECT_EQ(event.tenant_id(), "acme");
  EXPECT_EQ(event.payload(), " { } ");
  EXPECT_EQ(event.content_type(), "application/cloudevents+json");
  EXPECT_EQ(event.header("trace"), "ä\t");
  EXPECT_EQ(event.header("a"), "");
  EXPECT_EQ(event.header("none"), std::nullopt);
  EXPECT_EQ(event.occurred_at(), kNow - 1h);
  EXPECT_EQ(event.available_at(), kNow + 1h);
}

TEST(Event, KeepsAnyBytes) {
  const std::string all = "\0\xFF\xC0\r\n"s;
  Draft draft = good();
  draft.payload = bytes(all);
  const Event event = make_event(draft, kClock);
  EXPECT_FALSE(event.is_json());
  EXPECT_EQ(event.payload(), all);
  EXPECT_EQ(event.content_type(), "application/octet-stream");

  draft.payload = bytes(std::as_bytes(std::span(all)), "image/png");
  EXPECT_EQ(make_event(draft, kClock).payload(), all);
  EXPECT_EQ(make_event(draft, kClock).content_type(), "image/png");
}

TEST(Event, MayHaveAnEmptyByteArrayForAPayload) {
  Draft draft = good();
  draft.payload = bytes(std::span<const std::byte>{});
  EXPECT_EQ(make_event(draft, kClock).payload(), "");
}

TEST(Event, SharesItsContentsWithItsCopies) {
  const Event event = make_event(good(), kClock);
  const Event copy = event;
  EXPECT_EQ(&copy.payload(), &event.payload());
}

TEST(Event, IsRestoredWithoutChecks) {
  const Event event = Event::restore({.id = "", .type = "\xFF"});
  EXPECT_EQ(event.type(), "\xFF");
}

TEST(Event, GetsGreaterIdsOneAfterTheOther) {
  const Event first = make_event(good(), kClock);
  const Event second = make_event(good(), kClock);
  EXPECT_LT(first.id(), second.id());
}

// --- Delays ---

TEST(Event, CountsDeliverAfterFromNowAndNotFromWhenItOccurred) {
  Draft draft = good();
  draft.occurred_at = kNow - 24h;
  draft.deliver_after = 5min;
  EXPECT_EQ(make_event(draft, kClock).available_at(), kNow + 5min);
}

TEST(Event, IsAvailableAtOnceWhenItOccurredUnlessDelayed) {
  Draft draft = good();
  draft.occurred_at = kNow - 24h;
  EXPECT_EQ(make_event(draft, kClock).available_at(), kNow - 24h);
  draft.deliver_at = *draft.occurred_at;
  EXPECT_EQ(make_event(draft, kClock).available_at(), kNow - 24h);
}

// --- What a field takes ---

TEST(Draft, TakesATimeOfTheSystemClockInAnyUnitAndNeverRoundsItToBeEarlier) {
  using std::chrono::sys_time;
  const std::chrono::system_clock::time_point in_nanoseconds{1'800'000'000'000'000'001ns};
  Draft draft = good();
  draft.deliver_at = in_nanoseconds;
  EXPECT_EQ(draft.deliver_at, Time{1'800'000'000'000'001us});
  draft.deliver_at = sys_time<std::chrono::hours>{10h};
  EXPECT_EQ(draft.deliver_at, Time{10h});
  draft.deliver_at = sys_time<std::chrono::duration<double>>{std::chrono::duration<double>{0.5}};
  EXPECT_EQ(draft.deliver_at, Time{500ms});
  draft.deliver_at = sys_time<std::chrono::nanoseconds>{-1'500ns};
  EXPECT_EQ(draft.deliver_at, Time{-1us});
  draft.deliver_at = std::optional(in_nanoseconds);
  EXPECT_EQ(draft.deliver_at, Time{1'800'000'000'000'001us});
  draft.deliver_at = std::nullopt;
  EXPECT_FALSE(draft.deliver_at);

  // What happened did not happen later than it did.
  draft.occurred_at = in_nanoseconds;
  EXPECT_EQ(draft.occurred_at, Time{1'800'000'000'000'000us});
  draft.occurred_at = draft.deliver_at = in_nanoseconds + 1h;
  EXPECT_EQ(draft.occurred_at, Time{1'800'003'600'000'001us});
}

TEST(Draft, TakesASpanOfAnyUnitAndNeverRoundsItToBeShorter) {
  Draft draft = good();
  draft.deliver_after = 1ns;
  EXPECT_EQ(draft.deliver_after, 1us);
  draft.deliver_after = 1.5us;
  EXPECT_EQ(draft.deliver_after, 2us);
  draft.deliver_after = 0.1s;
  EXPECT_EQ(draft.deliver_after, 100ms);
  draft.deliver_after = std::chrono::duration<std::uint8_t, std::ratio<60>>{5};
  EXPECT_EQ(draft.deliver_after, 5min);
  draft.deliver_after = -1ns;
  EXPECT_EQ(draft.deliver_after, 0us);
  draft.deliver_after = std::optional<std::chrono::minutes>{};
  EXPECT_FALSE(draft.deliver_after);
}

TEST(Draft, CutsOffWhatIsBeyondAllCalendars) {
  Draft draft = good();
  draft.deliver_after = std::chrono::hours::max();
  EXPECT_EQ(draft.deliver_after, std::chrono::microseconds::max());
  draft.deliver_after = std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(draft.deliver_after, std::chrono::microseconds::max());
  draft.deliver_after = std::chrono::hours::min();
  EXPECT_EQ(draft.deliver_after, std::chrono::microseconds::min());
  draft.deliver_at = std::chrono::sys_time<std::chrono::hours>::max();
  EXPECT_EQ(draft.deliver_at, Time::max());
}

TEST(Draft, TakesIntegersAndEnumsAndEverySortOfTextForAnId) {
  const std::string text = "42";
  const std::string_view view = text;
  const auto id_of = [](auto value) {
    Draft draft = good();
    draft.aggregate_id = value;
    draft.tenant_id = value;
    draft.id = value;
    EXPECT_EQ(draft.tenant_id.str(), draft.aggregate_id.str());
    EXPECT_EQ(draft.id, draft.aggregate_id.str());
    return draft.aggregate_id.str();
  };
  EXPECT_EQ(id_of(42), "42");
  EXPECT_EQ(id_of(-1L), "-1");
  EXPECT_EQ(id_of(std::uint8_t{42}), "42");
  EXPECT_EQ(id_of(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(id_of(text), "42");
  EXPECT_EQ(id_of(view), "42");
  EXPECT_EQ(id_of("42"), "42");
  EXPECT_EQ(id_of(OrderEvent::shipped), "OrderShipped");
}

TEST(Draft, LeavesItsIdOpenUnlessItIsSaid) {
  Draft draft = good();
  EXPECT_FALSE(draft.id);
  draft.id = "";
  EXPECT_EQ(draft.id, "");
  draft.id = std::optional<std::string>{};
  EXPECT_FALSE(draft.id);
}

TEST(Draft, IsAlsoMadeCallByCall) {
  const Draft draft = event(OrderEvent::placed)
                          .aggregate("Order", 42)
                          .json("{}")
                          .header("a", "1")
                          .header("b", "1")
                          .header("b", "2")
                          .tenant_id("acme")
                          .deliver_at(kNow)
                          .deliver_after(5min)
                          .id("my-id")
                          .occurred_at(kNow - 1h);
  EXPECT_EQ(draft.type, "OrderPlaced");
  EXPECT_EQ(draft.aggregate_type, "Order");
  EXPECT_EQ(draft.aggregate_id, "42");
  EXPECT_EQ(draft.payload.data(), "{}");
  EXPECT_EQ(draft.headers, (Headers{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(draft.tenant_id, "acme");
  EXPECT_EQ(draft.deliver_at, kNow);
  EXPECT_EQ(draft.deliver_after, 5min);
  EXPECT_EQ(draft.id, "my-id");
  EXPECT_EQ(draft.occurred_at, kNow - 1h);
}

TEST(Draft, MadeCallByCallLeavesOpenWhatItDoesNotSay) {
  const Event made = make_event(event("OrderPlaced").bytes("\xFF"), kClock);
  EXPECT_EQ(made.aggregate_type(), "__GLOBAL__");
  EXPECT_EQ(made.aggregate_id(), "");
  EXPECT_EQ(made.payload(), "\xFF");
  EXPECT_EQ(made.available_at(), kNow);
}

TEST(Draft, CanBeMadeStepByStepAndUsedSeveralTimes) {
  auto order = event("OrderPlaced");
  order.aggregate("Order", 42);
  order.json("{}").header("k", "v");
  const Draft first = order;
  const Draft second = order.header("k", "w");
  const Draft last = std::move(order);
  EXPECT_EQ(first.headers, (Headers{{"k", "v"}}));
  EXPECT_EQ(second.headers, (Headers{{"k", "w"}}));
  EXPECT_EQ(last.payload.data(), "{}");
}

// --- Limits ---

TEST(Event, MayBeAsLargeAsTheLimitsInCodePoints) {
  Draft draft{.type = umlauts(128),
              .aggregate_type = umlauts(64),
              .aggregate_id = umlauts(128),
              .payload = json('"' + std::string(kMaxPayloadBytes - 2, 'x') + '"', umlauts(128)),
              .tenant_id = umlauts(64),
              .id = umlauts(36)};
  EXPECT_EQ(make_event(draft, kClock).payload().size(), 1'048'576U);
  draft.payload = bytes(std::string(kMaxPayloadBytes, '\0'));
  EXPECT_NO_THROW(make_event(draft, kClock));
  draft.occurred_at = draft.deliver_at = Time{253'402'300'799s};
  EXPECT_NO_THROW(make_event(draft, kClock));
}

// --- Refusals ---

std::string fault_of(Draft draft) {
  try {
    make_event(std::move(draft), kClock);
  } catch (const MisuseError& error) {
    return error.what();
  }
  return "(accepted)";
}

struct Bad {
  std::string message;  // how it begins
  std::function<void(Draft&)> spoil;
};

void expect_refused(const std::vector<Bad>& table) {
  for (const Bad& bad : table) {
    Draft draft = good();
    bad.spoil(draft);
    const std::string fault = fault_of(std::move(draft));
    EXPECT_TRUE(fault.starts_with(bad.message)) << "expected " << bad.message << "\ngot " << fault;
  }
}

TEST(Event, RefusesTextFieldsThatDoNotFitAndNamesThem) {
  struct Field {
    std::string name;
    std::size_t max;
    bool may_be_empty;
    std::function<void(Draft&, std::string)> set;
  };
  const Field fields[] = {
      {"event id", 36, false, [](Draft& d, std::string v) { d.id = std::move(v); }},
      {"event type", 128, false, [](Draft& d, std::string v) { d.type = std::move(v); }},
      {"event aggregate_type", 64, false,
       [](Draft& d, std::string v) { d.aggregate_type = std::move(v); }},
      {"event aggregate_id", 128, true,
       [](Draft& d, std::string v) { d.aggregate_id = std::move(v); }},
      {"event tenant_id", 64, true, [](Draft& d, std::string v) { d.tenant_id = std::move(v); }},
      {"event content_type", 128, true,
       [](Draft& d, std::string v) { d.payload = json("1", std::move(v)); }},
  };
  for (const Field& field : fields) {
    const auto fault_with = [&](const std::string& value) {
      Draft draft = good();
      field.set(draft, value);
      return fault_of(std::move(draft));
    };
    const std::string max = std::to_string(field.max);
    const std::string too_long =
        field.name + " is " + std::to_string(field.max + 1) + " characters long, at most " + max;
    EXPECT_TRUE(fault_with(std::string(field.max + 1, 'a')).starts_with(too_long)) << field.name;
    EXPECT_TRUE(fault_with(umlauts(field.max + 1)).starts_with(too_long)) << field.name;
    EXPECT_EQ(fault_with("a\0b"s),
              field.name + " must not contain NUL, as it does at byte 1: \"a\\x00b\"");
    EXPECT_EQ(fault_with("ab\xFF"),
              field.name + " must be UTF-8, which it is not at byte 2: \"ab\\xff\"");
    EXPECT_EQ(fault_with("\xED\xA0\x80"),
              field.name + " must be UTF-8, which it is not at byte 0: \"\\xed\\xa0\\x80\"");
    EXPECT_EQ(fault_with(""),
              field.may_be_empty ? "(accepted)"
                                 : field.name + " is \"\", 1 to " + max + " characters are needed");
  }
}

TEST(Event, CutsTheValueInItsMessages) {
  Draft draft = good();
  draft.type = std::string(131, 'a');
  EXPECT_EQ(fault_of(draft), "event type is 131 characters long, at most 128 are allowed: \"" +
                                 std::string(60, 'a') + "…\"");
}

TEST(Event, RefusesAMissingType) {
  EXPECT_EQ(fault_of({.payload = json("{}")}),
            "event type is \"\", 1 to 128 characters are needed");
}

TEST(Event, RefusesPayloadsThatAreMissingOrTooLarge) {
  expect_refused({
      {"event payload is missing, set it to json(...) or bytes(...)",
       [](Draft& d) { d.payload = Payload{}; }},
      {"event payload is 1048577 bytes long, at most 1048576 are allowed",
       [](Draft& d) { d.payload = bytes(std::string(kMaxPayloadBytes + 1, 'x')); }},
      {"event payload is 1048577 bytes long, at most 1048576 are allowed",
       [](Draft& d) { d.payload = json('"' + std::string(kMaxPayloadBytes - 1, 'x') + '"'); }},
  });
}

TEST(Event, RefusesJsonThatIsNotJson) {
  const auto with = [](std::string text) {
    return [text = std::move(text)](Draft& d) { d.payload = json(text); };
  };
  expect_refused({
      {"event payload is not JSON: expected a value at byte 0;", with("")},
      {"event payload is not JSON: expected a value at byte 1;", with(" ")},
      {"event payload is not JSON: expected a value at byte 0;", with("hello")},
      {"event payload is not JSON: expected ',' or '}' at byte 6;", with(R"({"a":1)")},
      {"event payload is not JSON: text after the end of the value at byte 3;", with("{} {}")},
      {"event payload is not JSON: control character in a string at byte 1;", with("\"\0\""s)},
      {"event payload is not JSON: invalid UTF-8 at byte 1;", with("\"\xFF\"")},
      {"event payload is not JSON: invalid UTF-8 at byte 1;", with("\"\xED\xA0\x80\"")},
      {"event payload is not JSON: expected a value at byte 1048576;",
       with(std::string(kMaxPayloadBytes, '['))},
  });
}

TEST(Event, RefusesHeadersThatOtherSystemsCouldNotCarry) {
  const auto with = [](std::string key, std::string value) {
    return [=](Draft& d) { d.headers = {{"good", "header"}, {key, value}}; };
  };
  const std::string control = "event header key must not contain control characters, as it does ";
  const std::string value = "event header \"k\" has a value that must ";
  expect_refused({
      {"event header key is \"\", it must not be empty", with("", "v")},
      {control + "at byte 0: \"\\n\"", with("\n", "v")},
      {control + "at byte 1: \"a\\r\"", with("a\r", "v")},
      {control + "at byte 1: \"a\\x00b\"", with("a\0b"s, "v")},
      {control + "at byte 1: \"a\\t\"", with("a\t", "v")},
      {control + "at byte 1: \"a\\x1f\"", with("a\x1F", "v")},
      {control + "at byte 1: \"a\\x7f\"", with("a\x7F", "v")},
      {control + "at byte 1: \"a\\xc2\\x85\"", with("a\xC2\x85", "v")},
      {"event header key must be UTF-8: \"a\\xff\"", with("a\xFF", "v")},
      {value + "not contain CR, LF or NUL, as it does (\"\\r\") at byte 1", with("k", "a\rb")},
      {value + "not contain CR, LF or NUL, as it does (\"\\n\") at byte 0", with("k", "\n")},
      {value + "not contain CR, LF or NUL, as it does (\"\\x00\") at byte 2", with("k", "ab\0"s)},
      {value + "be UTF-8, which it is not at byte 2", with("k", "ab\xFF")},
      {value + "be UTF-8, which it is not at byte 0", with("k", "\xC3")},
  });
}

TEST(Event, ShowsNoSecretOfAHeaderInAMessage) {
  Draft draft = good();
  draft.headers = {{"authorization", "Bearer s3cr3t\n"}};
  EXPECT_EQ(fault_of(draft).find("s3cr3t"), std::string::npos);
}

TEST(Event, RefusesInvalidTimes) {
  expect_refused({
      {"event would be available at 2023-11-14T22:13:19.999999Z, before its occurred_at "
       "2023-11-14T22:13:20.000000Z;",
       [](Draft& d) { d.deliver_at = kNow - 1us; }},
      {"event would be available at 2023-11-14T22:13:25.000000Z, before its occurred_at "
       "2023-11-14T22:13:30.000000Z;",
       [](Draft& d) {
         d.occurred_at = kNow + 10s;
         d.deliver_after = 5s;
       }},
      {"event deliver_at (2023-11-14T22:13:21.000000Z) and deliver_after (1000000 us) are both "
       "set, at most one is allowed",
       [](Draft& d) {
         d.deliver_at = kNow + 1s;
         d.deliver_after = 1s;
       }},
      {"event deliver_after is -1 us, it must not be negative nor reach beyond 9999-12-31",
       [](Draft& d) { d.deliver_after = -1us; }},
      {"event deliver_after is 9223372036854775807 us, ",
       [](Draft& d) { d.deliver_after = std::chrono::microseconds::max(); }},
      {"event available_at is 9223372036854775807 us since 1970, only the years 1000 to 9999",
       [](Draft& d) { d.deliver_at = Time::max(); }},
      {"event occurred_at is -9223372036854775808 us since 1970, only the years 1000 to 9999",
       [](Draft& d) { d.occurred_at = Time::min(); }},
  });
}

}  // namespace
}  // namespace outbox
