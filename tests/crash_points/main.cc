// Kills a process at each of its system calls, one after the other; call it with --help.
#include <charconv>
#include <iostream>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "faulty_store.h"
#include "scenario.h"
#include "support/services.h"
#include "system_calls.h"
#include "trial.h"

namespace outbox::crash_points {
namespace {

// What ctest takes for "skipped".
constexpr int kSkipped = 77;

constexpr std::string_view kTwoTransactions = "two_transactions";
void print_help() {
  std::cout
      << "Kills a process at its Nth write, send, fsync and the like, for N = 1, 2, 3 ... until\n"
         "it comes to its end. After each death another process goes on, and what was\n"
         "committed is compared with what was delivered. Exit code 1 on any violation.\n"
         "\n"
         "  --store S   sqlite (default), postgres or mysql; those on a server need one, as\n"
         "              scripts/services starts it\n"
         "  --part P    write (default): business rows and events, and their COMMITs; deliver:\n"
         "              read, deliver, acknowledge\n"
         "  --cut C     before the call (default); when a few bytes or half of it have been\n"
         "              written; after it\n"
         "  --every N   leave calls out: a shorter run\n"
         "  --fault F   a bug on purpose, to see whether it is found out: two_transactions (of "
         "the\n"
         "              application that writes), or one of those of outbox_chaos --help (of the\n"
         "              store that delivers)\n";
}

long number_of(const std::string& option, const std::string& text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) return value;
  throw std::invalid_argument(option + " needs a number, not '" + text + "'");
}

Arguments parse(std::span<const char* const> words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const std::string option = words[i];
    if (i + 1 == words.size()) throw std::invalid_argument(option + " needs a value; try --help");
    const std::string value = words[i + 1];
    if (option == "--store") {
      arguments.store = value;
    } else if (option == "--part") {
      arguments.part = value;
    } else if (option == "--cut") {
      arguments.cut = value;
    } else if (option == "--every") {
      arguments.every = number_of(option, value);
    } else if (option == "--fault") {
      arguments.fault = value;
    } else if (option == "--role") {
      arguments.role = value;
    } else if (option == "--folder") {
      arguments.folder = value;
    } else if (option == "--url") {
      arguments.url = value;
    } else if (option == "--die-at") {
      arguments.die_at = number_of(option, value);
    } else if (option == "--process") {
      arguments.process = static_cast<int>(number_of(option, value));
    } else {
      throw std::invalid_argument("unknown option '" + option + "'; try --help");
    }
  }
  return arguments;
}

// --- One of the processes ---

int play(const Arguments& arguments) {
  if (arguments.role != "finish") count_calls(arguments.die_at, cut_named(arguments.cut));
  const auto database = open(arguments);
  Work work{.database = *database, .folder = arguments.folder, .process = arguments.process};
  if (arguments.fault == kTwoTransactions) {
    work.two_transactions = true;
  } else if (!arguments.fault.empty()) {
    work.faults = chaos::fault_named(arguments.fault);
  }
  if (arguments.role == "write") write_some(work);
  if (arguments.role == "deliver") deliver_all(work);
  if (arguments.role == "finish") finish(work);
  std::cout << "calls: " << counted_calls() << std::endl;
  return 0;
}

std::optional<std::string> missing(const Arguments& arguments) {
  if (arguments.store == "postgres") return test::missing_service("OUTBOX_TEST_POSTGRES");
  if (arguments.store == "mysql") return test::missing_service("OUTBOX_TEST_MYSQL");
  return std::nullopt;
}

int run(const Arguments& arguments) {
  if (!arguments.role.empty()) return play(arguments);
  if (const auto problem = missing(arguments)) {
    std::cout << *problem << std::endl;
    return test::services_required() ? 1 : kSkipped;
  }
  return Trial(arguments).run();
}

}  // namespace
}  // namespace outbox::crash_points

int main(int argc, char** argv) {
  try {
    const std::span words(argv + 1, static_cast<std::size_t>(argc > 0 ? argc - 1 : 0));
    if (words.size() == 1 && std::string(words.front()) == "--help") {
      outbox::crash_points::print_help();
      return 0;
    }
    return outbox::crash_points::run(outbox::crash_points::parse(words));
  } catch (const std::exception& error) {
    std::cerr << "outbox_crash_points: " << error.what() << '\n';
    return 1;
  }
}
