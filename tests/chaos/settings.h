// What a run is told on its command line, and what its processes share.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "faulty_store.h"
#include "harness/process.h"

namespace outbox::chaos {

// How the dispatchers work.
enum class Mode { ordered, none, claims };

// What they work on.
enum class StoreKind { sqlite, postgres, mysql };

// Which servers there are: one; a primary with a standby or a replica, which has every
// commit that is acknowledged or gets it a moment later; a cluster of three that all take
// writes; a pair of which Patroni makes one the primary.
enum class Servers { one, sync, async, galera, patroni, patroni_sync };

struct Settings {
  std::uint64_t seed = 0;
  int kills = 60;
  std::chrono::seconds seconds{40};  // over which the kills are spread
  Mode mode = Mode::ordered;
  StoreKind store = StoreKind::sqlite;
  bool keep = false;
  bool help = false;

  // Of a server: how often connections are cut or lose a message, and how often
  // the server is killed.
  int cuts = 25;
  int server_kills = 2;

  // Of servers that are more than one, or, if it is frozen, of one: how often the primary
  // is lost and the other one takes its place; is frozen for longer than a lease, and goes
  // on when the other one has taken its place; and how often a server hears nothing of the
  // others.
  Servers servers = Servers::one;
  int promotions = 0;
  int freezes = 0;
  int isolations = 0;

  // Of the dispatchers. Short, so that stops outlast it; or long, so that a failover does not.
  std::chrono::seconds lease{3};

  // How many events a second are written in large transactions, besides the small ones.
  int rate = 0;

  // Whether the servers' data is in memory, where no commit waits for a disk: what is killed
  // here is processes.
  bool in_memory = false;

  // Where the figures of the run are added, a line of tab-separated values; and what they
  // say of the code that ran.
  std::string record{};
  std::string commit{};

  // Where the files of a run that was violated go; empty: they stay where they are.
  std::string evidence{};

  // Many runs, one after the other; see campaign.h.
  bool campaign = false;
  int minutes = 0;  // after which no run begins; 0: never

  // Of PostgreSQL: how its table keeps progress.
  bool by_position = false;

  // Of MariaDB: without it, the server shows commits before they are on its disk.
  bool binlog = true;

  // To test the checker: a fault switched on in the dispatchers, and the figure
  // of the verdict that must then not be clean.
  Faults faults{};
  std::string fault{};
  std::string expect{};

  // Of one process of the run.
  std::optional<harness::Role> role{};  // none: it is the one that starts them
  std::string directory{};
  int incarnation = 0;
  bool wrong_clock = false;  // its time of day steps

  // Of a server: through the network that fails, and around it.
  std::string url{};
  std::string direct_url{};
};

// Throws std::invalid_argument that names the option and the value. Without
// --seed it is taken from the system.
Settings parse_settings(std::span<const char* const> arguments);

// The command line of one of the processes.
std::vector<std::string> arguments_for(const Settings& settings, harness::Role role,
                                       int incarnation);

// What to tell it to play such a run again, but for the seed.
std::string description_of(const Settings& settings);

std::string_view to_string(Mode mode);
std::string_view to_string(StoreKind store);
std::string_view to_string(Servers servers);
void print_help(std::ostream& out);

// --- What the processes share ---

std::string database_path(const std::string& directory);
std::string socket_path(const std::string& directory);
std::string ledger_path(const std::string& directory);

// Of one thread of one process: files named so are append-only and never shared.
inline constexpr std::string_view kRollbacks = "rolled_back-";
inline constexpr std::string_view kOutcomes = "outcomes-";
inline constexpr std::string_view kAttempts = "attempts-";
inline constexpr std::string_view kFinished = "finished-";  // made when a thread writes no more
std::string path_of(std::string_view kind, const Settings& settings, int thread);

inline constexpr const char* kAggregateType = "Account";
inline constexpr const char* kEventType = "Moved";

// Or a file.
bool has_server(const Settings& settings);

// Whether its servers may lose commits that they have acknowledged.
bool may_lose_commits(const Settings& settings);

// What must not depend on the network that fails.
Settings around_the_network(Settings settings);

// On SQLite one of them is a standby; on a server they share the work.
int dispatchers(const Settings& settings);

// Small, so that the bound on duplicates means something.
inline constexpr int kWorkers = 4;
inline constexpr std::size_t kHotCapacity = 16;
inline constexpr std::size_t kColdCapacity = 32;
inline constexpr std::size_t kCapacity = kHotCapacity + kColdCapacity;

// Shorter than the longest stop, as the lease is, so that they do expire.
std::chrono::milliseconds lock_timeout(const Settings& settings);  // of row claims

}  // namespace outbox::chaos
