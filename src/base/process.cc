#include "base/process.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/thread.h"
#include "outbox/error.h"

namespace outbox {
namespace {

std::string first_line(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// The run of the kernel, and who counts the process ids. Empty if unknown.
std::string machine() {
  std::array<char, 64> space{};
  const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
  if (boot.empty() || readlink("/proc/self/ns/pid", space.data(), space.size() - 1) < 0) return {};
  return boot + "/" + space.data();
}

// When it started, in ticks since the start of the kernel; empty if there is none.
std::string start_of(std::int64_t pid) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  // The second field is the program's name in brackets, which may hold anything. The
  // start is the 22nd; a dead process that waits for its parent has state Z.
  const auto bracket = stat.rfind(')');
  if (bracket == std::string::npos) return {};
  std::istringstream rest(stat.substr(bracket + 1));
  std::string field;
  for (int number = 3; number <= 22 && rest >> field; ++number) {
    if (number == 3 && (field == "Z" || field == "X")) return {};
  }
  return field;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

InstanceOptions named(InstanceOptions options) {
  if (options.name.empty()) options.name = host_name() + ":" + std::to_string(getpid());
  return options;
}

std::string unique_owner(const std::string& name) {
  std::array<char, 24> suffix{};
  std::snprintf(suffix.data(), suffix.size(), "%08x%08x", random_seed(), random_seed());
  return name + ":" + std::to_string(getpid()) + ":" + suffix.data();
}

void check_not_forked(pid_t opener, const std::string& what) {
  if (getpid() == opener) return;
  throw MisuseError(what + " was opened by process " + std::to_string(opener) +
                    " and can't be used in its fork " + std::to_string(getpid()) +
                    ": open the store in the child");
}

std::string process_stamp() { return machine() + "/" + start_of(getpid()); }

bool is_certainly_dead(std::int64_t pid, const std::string& stamp) {
  const std::string here = machine();
  if (here.empty() || !stamp.starts_with(here + "/")) return false;
  return start_of(pid) != stamp.substr(here.size() + 1);
}

}  // namespace outbox
