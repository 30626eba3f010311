// The commands of the binary, a file each. Every function adds one command (or
// a group of them) to the command line; what it does is left in the session.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/arguments/arguments.h"

namespace outbox::cli {

void add_demo(CLI::App& app, Session& session);
void add_migrate(CLI::App& app, Session& session);
void add_events(CLI::App& app, Session& session);
void add_dead(CLI::App& app, Session& session);
void add_purge(CLI::App& app, Session& session);
void add_status(CLI::App& app, Session& session);
void add_subscriptions(CLI::App& app, Session& session);
void add_doctor(CLI::App& app, Session& session);

// --- What several commands share ---

// `list` and `show` of all events, or, by the time they died, of the dead ones.
void add_list(CLI::App& group, Session& session, FilterTime time, const char* about,
              const char* footer);
void add_show(CLI::App& group, Session& session, FilterTime time, const char* about,
              const char* footer);

// A line for each subscription of the table.
void print_subscriptions(const Console& console, Store& store, bool json);

// Says why nothing can be done about this id; the event may have changed since
// it was looked for.
std::string why_not_dead(Store& store, const std::string& id);

// A command that takes a store and nothing else, or one subscription of it.
void add_store_command(CLI::App& group, Session& session, const char* name, const char* about,
                       const char* footer, int (*run)(const Console&, const StoreOptions&),
                       bool of_subscription = false);

// Registers `run(options)` as what the command does. The options live as long
// as the command line does.
template <class Options, class Run>
void on_chosen(CLI::App& command, Session& session, std::shared_ptr<Options> options, Run run) {
  command.callback([&session, options, run] {
    session.chosen = [&session, options, run] { return run(session.console, *options); };
  });
}

}  // namespace outbox::cli
