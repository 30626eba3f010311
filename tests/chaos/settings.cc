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
constexpr std::array<std::pair<std::string_view, Role>, 4> kRoles{{{"supervisor", Role::supervisor},
                                                                   {"writer", Role::writer},
                                                                   {"dispatcher", Role::dispatcher},
                                                                   {"receiver", Role::receiver}}};

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

}  // namespace

Settings parse_settings(std::span<const char* const> arguments) {
  Settings settings;
  bool seeded = false;
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
    if (option == "--wrong-clock") {
      settings.wrong_clock = true;
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
    } else if (option == "--server-kills") {
      settings.server_kills = number_of<int>(option, value(), 0);
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
  if (!seeded) settings.seed = std::random_device{}();
  return settings;
}

std::vector<std::string> arguments_for(const Settings& settings, Role role, int incarnation) {
  std::vector<std::string> arguments{"--role",        std::string(to_string(role)),
                                     "--directory",   settings.directory,
                                     "--mode",        std::string(to_string(settings.mode)),
                                     "--store",       std::string(to_string(settings.store)),
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
  if (settings.wrong_clock) arguments.emplace_back("--wrong-clock");
  return arguments;
}

std::string_view to_string(Mode mode) { return name_of(kModes, mode); }
std::string_view to_string(Role role) { return name_of(kRoles, role); }
std::string_view to_string(StoreKind store) { return name_of(kStores, store); }

bool has_server(const Settings& settings) { return settings.store != StoreKind::sqlite; }

Settings around_the_network(Settings settings) {
  settings.url = settings.direct_url;
  return settings;
}

int dispatchers(const Settings& settings) { return has_server(settings) ? 3 : 2; }

std::chrono::milliseconds lock_timeout(const Settings& settings) {
  return has_server(settings) ? kLease : std::chrono::milliseconds{700};
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
         "  --no-binlog   on mysql: without a binary log, with which the server shows commits\n"
         "                before they are on its disk\n"
         "  --keep        keep the folder with the database, the ledger and the logs; it is kept\n"
         "                after a violation in any case\n"
         "  --fault F     break the dispatchers' store on purpose: mark_before_delivery,\n"
         "                lose_marks, reread, hook_on_rollback, drop_fence\n"
         "  --expect X    succeed only if the verdict shows that figure above its limit: lost,\n"
         "                ghosts, duplicates, order_breaks\n";
}

std::string database_path(const std::string& directory) { return directory + "/shop.db"; }
std::string socket_path(const std::string& directory) { return directory + "/receiver.sock"; }
std::string ledger_path(const std::string& directory) { return directory + "/ledger"; }

std::string path_of(std::string_view kind, const Settings& settings, int thread) {
  return settings.directory + "/" + std::string(kind) + std::to_string(settings.incarnation) + "-" +
         std::to_string(thread);
}

}  // namespace outbox::chaos
