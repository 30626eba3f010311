#include "surroundings.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "support/services.h"

namespace outbox::chaos {
namespace {

constexpr const char* kName = "chaos-run";
constexpr const char* kScript = OUTBOX_SOURCE_FOLDER "/scripts/services";
constexpr const char* kEnvironment = OUTBOX_SOURCE_FOLDER "/build/services/chaos-run/environment";

// As scripts/services calls it, and the variable that it tells the URL by.
struct Service {
  const char* name;
  std::string_view variable;
};
Service service_of(StoreKind store) {
  if (store == StoreKind::mysql) return {"mariadb", "OUTBOX_TEST_MYSQL="};
  return {"postgres", "OUTBOX_TEST_POSTGRES="};
}

std::string url_in_environment(const Service& service) {
  std::ifstream file(kEnvironment);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(service.variable)) return line.substr(service.variable.size());
  }
  throw std::runtime_error(std::string(kEnvironment) + " names no " + service.name);
}

}  // namespace

Server::Server(const Settings& settings) : store_(settings.store) {
  run("stop");
  run("start", settings.binlog ? nullptr : "--no-binlog");
  url_ = url_in_environment(service_of(store_));
}

Server::~Server() {
  try {
    run("stop");
  } catch (const std::exception& error) {
    fprintf(stderr, "the server stays behind: %s\n", error.what());
  }
}

void Server::run(const char* command, const char* option) const {
  // The one that may be missing is the last.
  const std::array<const char*, 7> texts{kScript, command, "--name", kName, service_of(store_).name,
                                         option,  nullptr};
  std::array<char*, 7> argv{};
  for (std::size_t i = 0; i < texts.size(); ++i) argv[i] = const_cast<char*>(texts[i]);
  pid_t pid = 0;
  if (const int error = posix_spawn(&pid, kScript, nullptr, nullptr, argv.data(), environ)) {
    throw std::system_error(error, std::generic_category(), kScript);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    throw std::runtime_error(std::string(kScript) + " " + command + " failed; see above");
  }
}

Surroundings::Surroundings(const Settings& settings)
    : store_(settings.store),
      server_(settings),
      network_("127.0.0.1", test::port_of(server_.url())) {}

std::string Surroundings::url() const { return test::with_port(server_.url(), network_.port()); }

void Surroundings::drop_reply_of_commit() {
  // PostgreSQL may still be answering what was sent before.
  network_.drop_reply("COMMIT", store_ == StoreKind::postgres ? "COMMIT" : "");
}

}  // namespace outbox::chaos
