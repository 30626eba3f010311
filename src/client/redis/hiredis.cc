#include "client/redis/hiredis.h"

#include <algorithm>
#include <iterator>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::redis {
namespace {

// Before Redis 7, what fails in a script is told as
// "ERR Error running script (call to f_...): @user_script:4: @user_script: 4: -OOM command ..."
constexpr std::string_view kInScript = "ERR Error running script";

struct ErrorClass {
  std::string_view code;
  std::string_view hint;
};

// These pass by themselves, or when an operator does something about them.
constexpr ErrorClass kPassing[] = {
    {"LOADING", "it is starting"},
    {"READONLY", "it is a replica: after a failover, the URL must lead to the new primary"},
    {"MASTERDOWN", "it is a replica without its primary"},
    {"NOREPLICAS", "it has too few replicas to write"},
    {"OOM", "it is out of memory: raise maxmemory or shorten the retention"},
    {"MISCONF", "it cannot save to its disk; see its log"},
    {"BUSY", "another script has been running for too long"},
    {"TRYAGAIN", "try again"},
    {"CLUSTERDOWN", "the cluster is down"},
};

constexpr ErrorClass kLasting[] = {
    {"NOAUTH", "put the password into the URL"},
    {"WRONGPASS", "check the user and the password of the URL"},
    {"NOPERM",
     "the user needs the commands AUTH, SELECT, SCRIPT LOAD, EVAL, EVALSHA, TIME, HMGET, "
     "HSET, HDEL and PEXPIRE, on the keys of the prefix"},
    {"MOVED", "it is a node of a Redis Cluster, which is not supported"},
    {"ASK", "it is a node of a Redis Cluster, which is not supported"},
};

template <class Table>
const ErrorClass* find_in(const Table& table, std::string_view code) {
  const auto* found = std::find_if(std::begin(table), std::end(table),
                                   [&](const ErrorClass& meaning) { return meaning.code == code; });
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

std::string_view error_code(std::string_view error) {
  if (error.starts_with(kInScript)) {
    constexpr std::string_view kBegin = ": -";
    const auto begin = error.find(kBegin);
    if (begin != error.npos) error.remove_prefix(begin + kBegin.size());
  }
  return error.substr(0, error.find(' '));
}

std::string error_text(std::string_view error) {
  constexpr std::size_t kMost = 300;
  return printable(error.substr(0, std::min(error.find(", with args"), kMost)));
}

void throw_error(std::string_view error, std::string_view where) {
  const std::string_view code = error_code(error);
  const std::string message = "Redis (" + std::string(where) + ") refuses: " + error_text(error);
  if (const ErrorClass* meaning = find_in(kPassing, code)) {
    throw UnavailableError(message + "; " + std::string(meaning->hint));
  }
  if (error.starts_with("ERR max number of clients")) {
    throw UnavailableError(message + "; raise its maxclients, or use fewer connections");
  }
  if (const ErrorClass* meaning = find_in(kLasting, code)) {
    throw PermanentError(message + "; " + std::string(meaning->hint));
  }
  throw PermanentError(message);
}

}  // namespace outbox::redis
