// `outbox demo`, and the processes that it starts.
#include "cli/demo/demo.h"

#include <random>

#include "cli/commands/commands.h"
#include "cli/errors.h"

namespace outbox::cli {
namespace {

constexpr const char* kAbout = "Watch it work, break it, and count what was lost";

constexpr const char* kFooter =
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
    "64 wrong usage; 69 something needed is unavailable; 78 the database cannot be used.\n"
    "\n"
    "Examples:\n"
    "  outbox demo                           live, in a terminal\n"
    "  outbox demo --seconds 10 --seed 7     by itself, with a verdict at the end";

struct Options {
  demo::DemoOptions demo{.seed = std::random_device{}()};
  std::optional<int> seconds{};
};

// The demo's other processes are started by the demo only.
template <class Role>
CLI::App& add_role(CLI::App& app, Session& session, const char* name, std::shared_ptr<Role> role) {
  CLI::App& command = *app.add_subcommand(name)->group("");
  command.add_option("--folder", role->directory.folder)->required();
  command.add_option("--database", role->directory.database)->required();
  on_chosen(command, session, role, [](const Console&, const Role& chosen) {
    demo::run(chosen);
    return kOk;
  });
  return command;
}

}  // namespace

void add_demo(CLI::App& app, Session& session) {
  CLI::App& command = *app.add_subcommand("demo", kAbout)->footer(kFooter);
  const auto options = std::make_shared<Options>();
  command
      .add_option("--seconds", options->seconds,
                  "Run unattended for N seconds (without a terminal: 10)")
      ->check(between(1, 86'400))
      ->type_name("N");
  command
      .add_option("--database", options->demo.database,
                  "A new file for the shop's database (default: a temporary one)")
      ->type_name("PATH");
  command
      .add_option("--seed", options->demo.seed,
                  "Makes the shop's choices repeatable (default: random)")
      ->type_name("N");
  command.add_option("--rate", options->demo.rate, "Orders a second, at most (default: 200)")
      ->check(between(1, 100'000))
      ->type_name("N");
  command.add_flag("--forget-one", options->demo.forget_one)->group("");
  on_chosen(command, session, options, [](const Console&, Options& chosen) {
    if (chosen.seconds) chosen.demo.duration = std::chrono::seconds{*chosen.seconds};
    return demo::run_demo(chosen.demo) ? kOk : kFailed;
  });

  const auto writer = std::make_shared<demo::WriterOptions>();
  CLI::App& writer_command = add_role(app, session, "demo-writer", writer);
  writer_command.add_option("--seed", writer->seed);
  writer_command.add_option("--rate", writer->rate);
  add_role(app, session, "demo-dispatcher", std::make_shared<demo::DispatcherOptions>());
  const auto receiver = std::make_shared<demo::ReceiverOptions>();
  add_role(app, session, "demo-receiver", receiver).add_flag("--forget-one", receiver->forget_one);
}

}  // namespace outbox::cli
