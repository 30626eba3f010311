// The outbox binary: reads the command line and wires everything together.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "cli/demo/demo.h"
#include "cli/demo/role.h"
#include "cli/exit_codes.h"
#include "core/quote.h"
#include "outbox/error.h"
#include "outbox/version.h"

namespace outbox::cli {
namespace {

constexpr const char* kAbout =
    "outbox, the transactional outbox for C++.\n"
    "\n"
    "An application writes its events in the same transaction as its data; a dispatcher delivers\n"
    "them afterwards. What was committed is delivered, what was rolled back is not, whatever\n"
    "crashes in between. Watch it, and break it:\n"
    "\n"
    "  outbox demo                 live, in a terminal\n"
    "  outbox demo --seconds 10    by itself, with a verdict at the end\n";

constexpr const char* kDemoAbout = "Watch it work, break it, and count what was lost";

constexpr const char* kDemoFooter =
    "A shop commits orders and rolls one in ten back on purpose. Writer, dispatcher and receiver\n"
    "are separate processes on one SQLite file. In a terminal the keys do the damage:\n"
    "\n"
    "  b   break the receiver (kill -9), or heal it\n"
    "  k   kill -9 the dispatcher; it comes back\n"
    "  q   quit: deliver what is left, then judge\n"
    "\n"
    "With --seconds, or without a terminal, it does both by itself. It ends with a verdict that\n"
    "compares the shop's table with the receiver's own ledger.\n"
    "\n"
    "Exit codes: 0 all promises kept; 1 something was lost, made up or out of order;\n"
    "64 wrong usage; 69 something needed is unavailable; 78 the database cannot be used.";

// Refuses other numbers; says so when it happens, not in the help.
CLI::Validator between(int least, int most) {
  return CLI::Validator(CLI::Range(least, most)).description("");
}

void add_workplace(CLI::App& app, demo::Workplace& workplace) {
  app.add_option("--folder", workplace.folder)->required();
  app.add_option("--database", workplace.database)->required();
}

// The demo's other processes are started by the demo only.
template <class Role>
CLI::App& add_role(CLI::App& app, const char* name, Role& role, std::function<int()>& chosen) {
  CLI::App& command = *app.add_subcommand(name)->group("");
  add_workplace(command, role.workplace);
  command.callback([&] {
    chosen = [&role] {
      demo::run(role);
      return kOk;
    };
  });
  return command;
}

int exit_code_of(const std::exception& error) {
  if (dynamic_cast<const RetryableError*>(&error) != nullptr) return kUnavailable;
  if (dynamic_cast<const PermanentError*>(&error) != nullptr) return kConfiguration;
  if (dynamic_cast<const MisuseError*>(&error) != nullptr) return kConfiguration;
  return kFailed;
}

// Says what was wrong with the command line, and where to read on.
int complain(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining(true);
  std::string what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unknown.empty()) {
    const bool option = unknown.front().starts_with("-");
    what = std::string(option ? "unknown option " : "unknown command or argument ") +
           quote(unknown.front());
  }
  const bool in_demo = app.got_subcommand("demo");
  std::cerr << "outbox: " << what << "\nTry: outbox " << (in_demo ? "demo " : "") << "--help\n";
  return kUsage;
}

int run(int argc, char** argv) {
  CLI::App app{kAbout, "outbox"};
  app.set_version_flag("--version", "outbox " + std::string(version()),
                       "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");

  // What was asked for; set while the command line is read.
  std::function<int()> chosen;

  demo::DemoOptions options{.seed = std::random_device{}()};
  std::optional<int> duration;
  CLI::App& demo = *app.add_subcommand("demo", kDemoAbout);
  demo.footer(kDemoFooter);
  demo.add_option("--seconds", duration, "Run unattended for so long (without a terminal: 10)")
      ->check(between(1, 86'400))
      ->type_name("N");
  demo.add_option("--database", options.database,
                  "A new file for the shop's database (default: a temporary one)")
      ->type_name("PATH");
  demo.add_option("--seed", options.seed, "Makes the shop's choices repeatable (default: random)")
      ->type_name("N");
  demo.add_option("--rate", options.rate, "Orders a second, at most (default: 200)")
      ->check(between(1, 100'000))
      ->type_name("N");
  demo.add_flag("--forget-one", options.forget_one)->group("");
  demo.callback([&] {
    if (duration) options.duration = std::chrono::seconds{*duration};
    chosen = [&] { return demo::run_demo(options) ? kOk : kFailed; };
  });

  demo::WriterRole writer;
  CLI::App& writer_command = add_role(app, "demo-writer", writer, chosen);
  writer_command.add_option("--seed", writer.seed);
  writer_command.add_option("--rate", writer.rate);
  demo::DispatcherRole dispatcher;
  add_role(app, "demo-dispatcher", dispatcher, chosen);
  demo::ReceiverRole receiver;
  add_role(app, "demo-receiver", receiver, chosen).add_flag("--forget-one", receiver.forget_one);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return complain(app, error);
  }
  if (!chosen) {
    std::cerr << "outbox: which command? There is: demo\nTry: outbox --help\n";
    return kUsage;
  }
  return chosen();
}

}  // namespace
}  // namespace outbox::cli

int main(int argc, char** argv) {
  try {
    return outbox::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "outbox: " << error.what() << '\n';
    return outbox::cli::exit_code_of(error);
  }
}
