#include "settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace outbox::chaos {
namespace {

constexpr std::array<std::pair<std::string_view, Mode>, 3> kModes{
    {{"ordered", Mode::ordered}, {"none", Mode::none}, {"claims", Mode::claims}}};
constexpr std::array<std::pair<std::string_view, StoreKind>, 3> kStores{
    {{"sqlite", StoreKind::sqlite},
     {"postgres", StoreKind::postgres},
     {"mysql", StoreKind::mysql}}};
constexpr std::array<std::pair<std::string_view, Servers>, 6> kServers{
    {{"one", Servers::one},
     {"sync", Servers::sync},
     {"async", Servers::async},
     {"galera", Servers::galera},
     {"patroni", Servers::patroni},
     {"patroni-sync", Servers::patroni_sync}}};
constexpr std::array<std::pair<std::string_view, harness::Role>, 3> kRoles{
    {{"writer", harness::Role::writer},
     {"dispatcher", harness::Role::dispatcher},
     {"receiver", harness::Role::receiver}}};

template <class Names>
auto value_of(const Names& names, std::string_view option, std::string_view text) {
  std::string known;
  for (const auto& [name, value] : names) {
    if (name == text) return value;
    known.append(known.empty() ? "" : ", ").append(name);
  }
  throw std::invalid_argument(std::string(option) + " must be one of " + known + "; got '" +
                              std::string(text) + "'");
}

template <class Names, class Value>
std::string_view name_of(const Names& names, Value wanted) {
  for (const auto& [name, value] : names) {
    if (value == wanted) return name;
  }
  return "?";
}

template <class Number>
Number number_of(std::string_view option, std::string_view text, Number least) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= least) return value;
  throw std::invalid_argument(std::string(option) + " must be a whole number of at least " +
                              std::to_string(least) + "; got '" + std::string(text) + "'");
}

// Of the servers; `given` says which of the defaults were changed.
struct Given {
  bool cuts = false;
  bool server_kills = false;
};

[[noreturn]] void refuse(const std::string& what, std::string_view got) {
  throw std::invalid_argument(what + "; got '" + std::string(got) + "'");
}

StoreKind store_of(Servers servers) {
  return servers == Servers::galera ? StoreKind::mysql : StoreKind::postgres;
}

void check_servers(Settings& settings, const Given& given) {
  const bool pair = settings.servers == Servers::sync || settings.servers == Servers::async;
  const std::string option = "--servers " + std::string(to_string(settings.servers));
  if (settings.servers == Servers::one) {
    if (settings.promotions > 0) refuse("--promotions needs --servers with two of them", "one");
    if (settings.isolations > 0) refuse("--isolations needs --servers with several", "one");
    if (settings.freezes > 0 && !has_server(settings)) {
      refuse("--freezes needs --store postgres or mysql", to_string(settings.store));
    }
    return;
  }
  const bool fits = settings.servers == Servers::async
                        ? has_server(settings)
                        : settings.store == store_of(settings.servers);
  if (!fits) refuse(option + " is for another --store", to_string(settings.store));
  if (settings.servers == Servers::galera && settings.promotions > 0) {
    refuse("--promotions needs a primary, which a cluster has not", to_string(settings.servers));
  }
  if (settings.isolations > 0 && !pair && settings.servers != Servers::galera) {
    refuse("--isolations is for sync, async and galera", to_string(settings.servers));
  }
  // Their clients go straight to them: what is to fail is the servers.
  if (given.cuts && settings.cuts > 0)
    refuse("--cuts is for one server", to_string(settings.servers));
  settings.cuts = 0;
  if (!given.server_kills) settings.server_kills = 0;
}

}  // namespace

Settings parse_settings(std::span<const char* const> arguments) {
  Settings settings;
  bool seeded = false;
  Given given;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    if (option == "--help") {
      settings.help = true;
      continue;
    }
    if (option == "--keep") {
      settings.keep = true;
      continue;
    }
    if (option == "--no-binlog") {
      settings.binlog = false;
      continue;
    }
    if (option == "--by-position") {
      settings.by_position = true;
      continue;
    }
    if (option == "--wrong-clock") {
      settings.wrong_clock = true;
      continue;
    }
    if (option == "--in-memory") {
      settings.in_memory = true;
      continue;
    }
    if (option == "--long") {
      settings.campaign = true;
      continue;
    }
    const auto value = [&]() -> std::string_view {
      if (++i < arguments.size()) return arguments[i];
      throw std::invalid_argument(std::string(option) + " needs a value; try --help");
    };
    if (option == "--seed") {
      settings.seed = number_of<std::uint64_t>(option, value(), 0);
      seeded = true;
    } else if (option == "--kills") {
      settings.kills = number_of<int>(option, value(), 0);
    } else if (option == "--seconds") {
      settings.seconds = std::chrono::seconds{number_of<int>(option, value(), 1)};
    } else if (option == "--mode") {
      settings.mode = value_of(kModes, option, value());
    } else if (option == "--store") {
      settings.store = value_of(kStores, option, value());
    } else if (option == "--cuts") {
      settings.cuts = number_of<int>(option, value(), 0);
      given.cuts = true;
    } else if (option == "--server-kills") {
      settings.server_kills = number_of<int>(option, value(), 0);
      given.server_kills = true;
    } else if (option == "--servers") {
      settings.servers = value_of(kServers, option, value());
    } else if (option == "--promotions") {
      settings.promotions = number_of<int>(option, value(), 0);
    } else if (option == "--freezes") {
      settings.freezes = number_of<int>(option, value(), 0);
    } else if (option == "--isolations") {
      settings.isolations = number_of<int>(option, value(), 0);
    } else if (option == "--lease") {
      settings.lease = std::chrono::seconds{number_of<int>(option, value(), 1)};
    } else if (option == "--rate") {
      settings.rate = number_of<int>(option, value(), 0);
    } else if (option == "--record") {
      settings.record = value();
    } else if (option == "--commit") {
      settings.commit = value();
    } else if (option == "--evidence") {
      settings.evidence = value();
    } else if (option == "--minutes") {
      settings.minutes = number_of<int>(option, value(), 1);
    } else if (option == "--fault") {
      settings.fault = value();
      settings.faults = fault_named(settings.fault);
    } else if (option == "--expect") {
      settings.expect = value();
    } else if (option == "--role") {
      settings.role = value_of(kRoles, option, value());
    } else if (option == "--directory") {
      settings.directory = value();
    } else if (option == "--url") {
      settings.url = value();
    } else if (option == "--direct-url") {
      settings.direct_url = value();
    } else if (option == "--incarnation") {
      settings.incarnation = number_of<int>(option, value(), 0);
    } else {
      throw std::invalid_argument("unknown option '" + std::string(option) + "'; try --help");
    }
  }
  if (!settings.binlog && settings.store != StoreKind::mysql) {
    throw std::invalid_argument("--no-binlog is for --store mysql; got '" +
                                std::string(to_string(settings.store)) + "'");
  }
  if (settings.by_position &&
      (settings.store != StoreKind::postgres || settings.mode == Mode::claims)) {
    throw std::invalid_argument("--by-position is for --store postgres without --mode claims");
  }
  check_servers(settings, given);
  if (!seeded) settings.seed = std::random_device{}();
  return settings;
}

std::vector<std::string> arguments_for(const Settings& settings, harness::Role role,
                                       int incarnation) {
  std::vector<std::string> arguments{"--role",        std::string(to_string(role)),
                                     "--directory",   settings.directory,
                                     "--mode",        std::string(to_string(settings.mode)),
                                     "--store",       std::string(to_string(settings.store)),
                                     "--servers",     std::string(to_string(settings.servers)),
                                     "--lease",       std::to_string(settings.lease.count()),
                                     "--rate",        std::to_string(settings.rate),
                                     "--seed",        std::to_string(settings.seed),
                                     "--incarnation", std::to_string(incarnation)};
  const auto add = [&arguments](const char* option, const std::string& value) {
    if (value.empty()) return;
    arguments.emplace_back(option);
    arguments.push_back(value);
  };
  add("--url", settings.url);
  add("--direct-url", settings.direct_url);
  add("--fault", settings.fault);
  if (settings.by_position) arguments.emplace_back("--by-position");
  if (settings.wrong_clock) arguments.emplace_back("--wrong-clock");
  return arguments;
}

std::string description_of(const Settings& settings) {
  const Settings usual;
  std::string text = "--store " + std::string(to_string(settings.store));
  const auto add = [&text](const char* option, const auto& value) {
    text.append(" ").append(option).append(" ").append(value);
  };
  const auto add_number = [&](const char* option, auto value, auto otherwise) {
    if (value != otherwise) add(option, std::to_string(value));
  };
  if (settings.servers != Servers::one) add("--servers", to_string(settings.servers));
  add("--mode", to_string(settings.mode));
  add("--kills", std::to_string(settings.kills));
  add("--seconds", std::to_string(settings.seconds.count()));
  if (has_server(settings)) {
    const bool one = settings.servers == Servers::one;
    add_number("--cuts", settings.cuts, one ? usual.cuts : 0);
    add_number("--server-kills", settings.server_kills, one ? usual.server_kills : 0);
    add_number("--promotions", settings.promotions, 0);
    add_number("--freezes", settings.freezes, 0);
    add_number("--isolations", settings.isolations, 0);
    add_number("--lease", settings.lease.count(), usual.lease.count());
    if (!settings.binlog) text += " --no-binlog";
    if (settings.by_position) text += " --by-position";
    if (settings.in_memory) text += " --in-memory";
  }
  add_number("--rate", settings.rate, 0);
  if (!settings.fault.empty()) add("--fault", settings.fault);
  return text;
}

std::string_view to_string(Mode mode) { return name_of(kModes, mode); }
std::string_view to_string(StoreKind store) { return name_of(kStores, store); }
std::string_view to_string(Servers servers) { return name_of(kServers, servers); }

bool has_server(const Settings& settings) { return settings.store != StoreKind::sqlite; }

bool may_lose_commits(const Settings& settings) {
  return settings.servers == Servers::async || settings.servers == Servers::patroni;
}

Settings around_the_network(Settings settings) {
  settings.url = settings.direct_url;
  return settings;
}

int dispatchers(const Settings& settings) { return has_server(settings) ? 3 : 2; }

std::chrono::milliseconds lock_timeout(const Settings& settings) {
  return has_server(settings) ? std::chrono::milliseconds{settings.lease}
                              : std::chrono::milliseconds{700};
}

void print_help(std::ostream& out) {
  out << "Kills and freezes a writer, some dispatchers and a receiver, which work on one\n"
         "database, and judges what was committed against what arrived. Exit code 1 on any\n"
         "violation.\n"
         "\n"
         "  --seed N      of the schedule and of everything random (default: a new one, printed)\n"
         "  --kills N     how many SIGKILLs (default 60)\n"
         "  --seconds N   over which they are spread (default 40)\n"
         "  --mode M      ordered (default), none, or claims (row claims)\n"
         "  --store S     sqlite (default), postgres or mysql: these are a server of its own,\n"
         "                started by scripts/services; transactions stay open for seconds, and\n"
         "                one of the processes has a clock that steps. One such run at a time\n"
         "  --cuts N      on servers: how often connections are cut, or lose the request or the\n"
         "                reply of a COMMIT (default 25)\n"
         "  --server-kills N  on servers: how often the server is killed (default 2)\n"
         "  --servers S   one (default), or several, which clients name in one URL: sync and "
         "async\n"
         "                (a primary and a standby that has every commit that is acknowledged, or\n"
         "                gets it later; mysql: async only), galera (on mysql), patroni and\n"
         "                patroni-sync (on postgres)\n"
         "  --promotions N  on two servers: how often the primary is lost, and the other one "
         "takes\n"
         "                its place; with async, commits are lost with it\n"
         "  --freezes N   on servers: how often the primary stops for longer than a lease, and "
         "goes\n"
         "                on when the other one has taken its place\n"
         "  --isolations N  on several servers: how often one hears nothing of the others\n"
         "  --lease N     of the dispatchers, in seconds (default 3): short, so that stops outlast "
         "it\n"
         "  --rate N      also write so many events a second, in large transactions (default 0)\n"
         "  --in-memory   keep the servers' data in memory if there is plenty\n"
         "  --record F    add the figures to that file, as a line of tab-separated values\n"
         "  --no-binlog   on mysql: without a binary log, with which the server shows commits\n"
         "                before they are on its disk\n"
         "  --by-position on postgres: with progress by position\n"
         "  --keep        keep the folder with the database, the ledger and the logs; it is kept\n"
         "                after a violation in any case\n"
         "  --fault F     break the dispatchers' store on purpose: update_before_delivery,\n"
         "                lose_updates, reread, hook_on_rollback, drop_fence\n"
         "  --expect X    succeed only if the verdict shows that figure above its limit: lost,\n"
         "                ghosts, duplicates, order_breaks, double_owners, commits_lost, "
         "misreported\n"
         "  --evidence D  move the files of a run that was violated to a folder in there\n"
         "\n"
         "  --long        runs of all kinds, one after the other, with new seeds, until so many\n"
         "                faults and events are in the file of --record that its goals are\n"
         "                reached; it goes on where it was interrupted\n"
         "  --minutes N   begins no run after that time\n";
}

std::string database_path(const std::string& directory) { return directory + "/shop.db"; }
std::string socket_path(const std::string& directory) { return directory + "/receiver.sock"; }
std::string ledger_path(const std::string& directory) { return directory + "/ledger"; }

std::string path_of(std::string_view kind, const Settings& settings, int thread) {
  return settings.directory + "/" + std::string(kind) + std::to_string(settings.incarnation) + "-" +
         std::to_string(thread);
}

}  // namespace outbox::chaos
