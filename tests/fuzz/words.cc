// What people type and other programs send: URLs of stores, names of tables,
// times, spans, headers, traces. Each parser gets the whole input.
#include <chrono>

#include "base/quote.h"
#include "base/sql_text.h"
#include "base/time_text.h"
#include "base/url.h"
#include "base/utf8.h"
#include "cli/arguments/arguments.h"
#include "cli/doctor/backend.h"
#include "cli/errors.h"
#include "cli/output/text.h"
#include "client/sqlite/database.h"
#include "outbox/error.h"
#include "outbox/open.h"
#include "outbox/sqlite.h"
#include "outbox/telemetry/tracing.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

// What was opened under the name `known:`.
std::shared_ptr<Store> open_known(std::string_view text) {
  std::shared_ptr<Store> opened;
  open(std::string(text), {{.names = {"known"}, .open = [&](const std::string& url) {
                              require(url.starts_with("known:"), "the scheme is in lower case");
                              require(text.ends_with(url.substr(5)), "the rest is as it was");
                              return opened;
                            }}});
  return opened;
}

void check_url(std::string_view text) {
  try {
    open_known(text);
  } catch (const MisuseError& error) {
    require(std::string_view(error.what()).find("known:") != std::string_view::npos,
            "a refusal says what would do");
  }
  try {
    require(!cli::find_backend(text, "t")->arguments().empty(), "a store has a name");
  } catch (const Error& error) {
    require(*error.what() != '\0', "a refusal says why");
  } catch (const cli::ConfigurationError& error) {
    require(*error.what() != '\0', "a refusal says why");
  }
  if (!text.starts_with("sqlite:")) return;
  try {
    const std::string path = sqlite::path_of_url(text);
    require(!path.empty(), "a store is somewhere");
    require(text.ends_with(path), "the path is what was typed");
  } catch (const MisuseError& error) {
    require(*error.what() != '\0', "a refusal says why");
  }
}

// What anybody types or stores may end in a message, and that on a terminal.
void check_shown(std::string_view text) {
  const std::string shown = printable(text);
  require(is_valid_utf8(shown), "what is shown is text");
  require(find_control(shown) == shown.size(), "and commands no terminal");
  for (const std::string_view turns :
       {"\xd8\x9c", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaa",
        "\xe2\x80\xab", "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae", "\xe2\x81\xa6",
        "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9"}) {
    require(shown.find(turns) == shown.npos, "nor turns the direction of others");
  }
  const std::string secret = "tOpSeCrEt";
  if (text.find(secret) != text.npos) return;  // it has been typed in the open
  for (const std::string& url :
       {std::string(text) + "://u:" + secret + "@h/d", std::string(text) + " password=" + secret,
        "x" + std::string(text) + "://h/d?password=" + secret}) {
    require(without_secrets(url).find(secret) == std::string::npos, "a password is not shown");
  }
}

void check_table(std::string_view text) {
  const std::string name(text);
  bool good = false;
  try {
    check_table_name(name);
    good = true;
  } catch (const MisuseError& error) {
    require(std::string_view(error.what()).find("table name") != std::string_view::npos,
            "the message says what is wrong");
  }
  const bool plain =
      text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
          text.npos &&
      !text.empty() && !('0' <= text.front() && text.front() <= '9');
  require(good == plain, "a table's name is what the rule says");
  require(quoted_name(text).find_last_of('"') == quoted_name(text).size() - 1,
          "a quoted name ends with a quote");
}

void check_times(std::string_view text) {
  if (const auto time = cli::parse_time(text)) {
    require(kEarliestTime <= *time && *time <= kLatestTime, "times are within bounds");
    require(cli::parse_time(time_text(*time)) == *time, "a time is read as it is written");
  }
  if (const auto span = cli::parse_duration(text)) {
    require(span->count() >= 0, "spans are not negative");
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(*span);
    require(cli::parse_duration(std::to_string(millis.count()) + "ms") == *span,
            "a span is the sum of its parts");
    cli::age_text(*span);
  }
  constexpr Time kNow{std::chrono::microseconds{1'800'000'000'000'000}};
  try {
    cli::short_time_text(cli::past_time("--since", text, kNow));
  } catch (const cli::UsageError& error) {
    require(std::string_view(error.what()).starts_with("--since"), "the message names the option");
  }
}

void check_headers(std::string_view text) {
  std::vector<std::string> arguments;
  for (const std::string_view line : lines_of(text)) arguments.emplace_back(line);
  try {
    const Headers headers = cli::parse_headers(arguments);
    require(headers.size() == arguments.size(), "no header is lost");
    for (const std::string& argument : arguments) {
      const std::size_t equals = argument.find('=');
      require(headers.at(argument.substr(0, equals)) == argument.substr(equals + 1),
              "values are taken as they are");
    }
  } catch (const cli::UsageError& error) {
    require(std::string_view(error.what()).starts_with("--header"), "the message names the option");
  }
}

// The first line is traceparent, the rest tracestate.
void check_trace(std::string_view text) {
  const std::string_view parent = text.substr(0, text.find('\n'));
  const std::string_view state =
      parent.size() == text.size() ? std::string_view() : text.substr(parent.size() + 1);
  const auto context = parse_trace(parent, state);
  if (!context) return;
  require(context->valid(), "a context that is read is valid");
  require(context->state.empty() || context->state == state, "tracestate is passed on or dropped");
  const std::string written = context->traceparent();
  require(written.substr(2, 51) == parent.substr(2, 51), "the ids are passed on");
  require(parse_trace(written, context->state) == context, "what is written is read again");
}

}  // namespace
}  // namespace outbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox::fuzz;
  const std::string_view text = text_of(data, size);
  check_url(text);
  check_shown(text);
  check_table(text);
  check_times(text);
  check_headers(text);
  check_trace(text);
  return 0;
}
