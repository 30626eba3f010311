// `outbox migrate`: the tables of a store.
#include <optional>
#include <string>

#include "base/quote.h"
#include "cli/arguments/arguments.h"
#include "cli/commands/commands.h"
#include "cli/errors.h"

namespace outbox::cli {
namespace {

JsonObject to_json(const SchemaStatus& status) {
  std::vector<JsonObject> steps;
  for (const SchemaStep& step : status.steps) {
    JsonObject object;
    object.add("version", step.version).add("name", step.name).add("applied_at", step.applied_at);
    steps.push_back(object);
  }
  JsonObject object;
  object.add("version", status.present)
      .add("latest", status.latest)
      .add("up_to_date", status.up_to_date())
      .add("steps", steps);
  return object;
}

void refuse_newer(const Backend& backend, const SchemaStatus& status) {
  if (!status.newer()) return;
  throw ConfigurationError(
      "the schema of the " + backend.description() + " has version " +
      std::to_string(status.present) + ", and this outbox knows versions up to " +
      std::to_string(status.latest) + ": use the version of outbox that made it, or a later one");
}

struct SchemaOptions {
  StoreOptions store{};
  std::string progress{};
};

void add_progress(CLI::App& command, SchemaOptions& options) {
  command
      .add_option("--progress", options.progress,
                  "Of a new table: row (the default), or position (PostgreSQL)")
      ->type_name("KIND")
      ->group("Store");
}

std::optional<outbox::Progress> progress_of(const SchemaOptions& options) {
  if (options.progress.empty()) return std::nullopt;
  if (options.progress == "row") return outbox::Progress::row;
  if (options.progress == "position") return outbox::Progress::position;
  throw UsageError("--progress takes row or position, got " + quote(options.progress));
}

int up(const Console& console, const SchemaOptions& chosen) {
  const StoreOptions& options = chosen.store;
  const auto backend = find_backend(options);
  const SchemaStatus before = backend->schema_status();
  refuse_newer(*backend, before);
  // Also if it is up to date: another process may not have finished yet.
  const SchemaStatus after = backend->migrate(progress_of(chosen));
  if (options.json) {
    JsonObject object = to_json(after);
    object.add("applied", after.present - before.present);
    console.print(object);
    return kOk;
  }
  for (const SchemaStep& step : after.steps) {
    if (step.version > before.present) console.out << "applied  " << printable(step.name) << '\n';
  }
  console.out << "The " << printable(backend->description()) << " is up to date: version "
              << after.present << ".\n";
  return kOk;
}

int status(const Console& console, const StoreOptions& options) {
  const auto backend = find_backend(options);
  const SchemaStatus now = backend->schema_status();
  if (options.json) {
    console.print(to_json(now));
  } else {
    Table table(
        {{.title = "VERSION", .right = true}, {.title = "NAME"}, {.title = "APPLIED (UTC)"}});
    for (const SchemaStep& step : now.steps) {
      const bool unknown = step.version > now.latest;
      table.add({std::to_string(step.version),
                 unknown ? step.name + " (by a newer outbox)" : step.name,
                 step.applied_at ? Cell(short_time_text(*step.applied_at), Style::faint)
                                 : Cell("not yet", Style::warning)});
    }
    console.print(table);
  }
  refuse_newer(*backend, now);
  if (now.up_to_date()) return kOk;
  const std::string file = backend->missing_file();
  console.say((file.empty() ? "The " + backend->description() + " is not up to date"
                            : "There is no file " + file) +
              "; run: outbox migrate up " + backend->arguments());
  return kFailed;
}

int change_kind(const Console& console, const SchemaOptions& options) {
  const auto to = progress_of(options);
  if (!to) throw UsageError("say what the table is to become: --to position, or --to row");
  const auto backend = find_backend(options.store);
  const bool switched = backend->switch_progress(*to, [&](const std::string& step) {
    if (!options.store.json) console.say(step);
  });
  if (options.store.json) {
    console.print(JsonObject{}.add("progress", options.progress).add("switched", switched));
  } else if (switched) {
    console.out << "The table keeps its progress "
                << (to == outbox::Progress::position ? "by position" : "in its rows")
                << ". Restart the programs that deliver its events.\n";
  } else {
    console.out << "The table is of that kind already.\n";
  }
  return kOk;
}

int print(const Console& console, const SchemaOptions& options) {
  // The SQL does not depend on what the file holds, so none need be named.
  StoreOptions store = options.store;
  if (store.db.empty()) store.db = "sqlite:outbox.db";
  const std::string sql = find_backend(store)->schema_sql(progress_of(options));
  console.out << sql;
  return kOk;
}

}  // namespace

void add_migrate(CLI::App& app, Session& session) {
  CLI::App& group = *app.add_subcommand("migrate", "Create or update the tables");
  group.footer(
      "Examples:\n"
      "  outbox migrate up --db sqlite:shop.db       create or update\n"
      "  outbox migrate status --db sqlite:shop.db   exit code 1 if something is missing\n"
      "  outbox migrate print | sqlite3 shop.db      to apply the SQL with another tool\n"
      "  outbox migrate print --db postgresql:// | psql shop\n"
      "  outbox migrate print --db mariadb:// | mariadb shop");

  CLI::App& up_command =
      *group.add_subcommand("up", "Apply missing migrations; never destroys anything");
  const auto up_options = std::make_shared<SchemaOptions>();
  add_store_options(up_command, up_options->store);
  add_progress(up_command, *up_options);
  up_command.footer(
      "Safe while applications run, and when several migrate at once. Each step is a transaction;\n"
      "on MariaDB and MySQL, which cannot roll back DDL, a step can be repeated instead. Creates\n"
      "the file of an SQLite database; on a server the database must exist. Refuses a schema that\n"
      "is newer than this outbox.\n"
      "\n"
      "Examples:\n"
      "  outbox migrate up --db sqlite:shop.db\n"
      "  outbox migrate up --db postgresql://owner@db.example/shop --table billing.outbox_event\n"
      "  outbox migrate up --db postgresql://owner@db.example/shop --progress position\n"
      "  OUTBOX_DB=shop.db outbox migrate up --table orders_outbox");
  on_chosen(up_command, session, up_options, up);
  add_store_command(
      group, session, "status", "Show which migrations were applied, and when",
      "Changes nothing. Exit codes: 0 up to date; 1 steps missing; 78 made by a newer outbox.\n"
      "\n"
      "Examples:\n"
      "  outbox migrate status --db sqlite:shop.db\n"
      "  outbox migrate status --db sqlite:shop.db --json | jq .version",
      status);

  CLI::App& switch_command =
      *group.add_subcommand("switch", "Change how a table in use keeps its progress (PostgreSQL)");
  const auto switch_options = std::make_shared<SchemaOptions>();
  switch_command.add_option("--to", switch_options->progress, "position, or row")
      ->type_name("KIND")
      ->required();
  add_store_options(switch_command, switch_options->store);
  switch_command.footer(
      "Writers go on. Programs that deliver drain what they have, and then stop delivering:\n"
      "restart them afterwards. Nothing is lost, and nothing delivered twice. If it is "
      "interrupted,\n"
      "run it again.\n"
      "\n"
      "Examples:\n"
      "  outbox migrate switch --to position --db postgresql://owner@db.example/shop");
  on_chosen(switch_command, session, switch_options, change_kind);

  CLI::App& print_command = *group.add_subcommand("print", "Print the schema as SQL");
  const auto print_options = std::make_shared<SchemaOptions>();
  print_command
      .add_option("--db", print_options->store.db,
                  "Database, for its dialect (default: $OUTBOX_DB, or SQLite)")
      ->envname("OUTBOX_DB")
      ->type_name("URL")
      ->group("Store");
  print_command
      .add_option("--table", print_options->store.table, "Table of events (default: outbox_event)")
      ->type_name("NAME")
      ->group("Store");
  add_progress(print_command, *print_options);
  print_command.footer(
      "Connects to no database: postgresql://, mariadb://, mysql:// or sqlite:x is enough, to "
      "name\n"
      "the dialect; mariadb:// and mysql:// differ in the names of collations. The SQL can be\n"
      "applied repeatedly, and records its version for the library and `outbox migrate`.\n"
      "\n"
      "Examples:\n"
      "  outbox migrate print > 0001_outbox.sql\n"
      "  outbox migrate print --table orders_outbox | sqlite3 shop.db\n"
      "  outbox migrate print --db postgresql:// --table billing.outbox_event | psql shop");
  on_chosen(print_command, session, print_options, print);
}

}  // namespace outbox::cli
