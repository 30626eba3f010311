// The commands of the binary, a file each. Every function adds one command (or
// a group of them) to the command line; what it does is left in the session.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/arguments/common.h"

namespace outbox::cli {

void add_demo(CLI::App& app, Session& session);
void add_migrate(CLI::App& app, Session& session);
void add_events(CLI::App& app, Session& session);
void add_dead(CLI::App& app, Session& session);
void add_purge(CLI::App& app, Session& session);
void add_status(CLI::App& app, Session& session);
void add_doctor(CLI::App& app, Session& session);
void add_completion(CLI::App& app, Session& session);

// Registers `run(options)` as what the command does. The options live as long
// as the command line does.
template <class Options, class Run>
void on_chosen(CLI::App& command, Session& session, std::shared_ptr<Options> options, Run run) {
  command.callback([&session, options, run] {
    session.chosen = [&session, options, run] { return run(session.console, *options); };
  });
}

}  // namespace outbox::cli
