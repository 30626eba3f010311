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

std::string url_in_environment() {
  constexpr std::string_view kVariable = "OUTBOX_TEST_POSTGRES=";
  std::ifstream file(kEnvironment);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kVariable)) return line.substr(kVariable.size());
  }
  throw std::runtime_error(std::string(kEnvironment) + " names no PostgreSQL");
}

}  // namespace

Server::Server() {
  run("stop");
  run("start");
  url_ = url_in_environment();
}

Server::~Server() {
  try {
    run("stop");
  } catch (const std::exception& error) {
    fprintf(stderr, "the server stays behind: %s\n", error.what());
  }
}

void Server::run(const char* command) {
  const std::array<std::string, 5> texts{kScript, command, "--name", kName, "postgres"};
  std::array<char*, 6> argv{};
  for (std::size_t i = 0; i < texts.size(); ++i) argv[i] = const_cast<char*>(texts[i].c_str());
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

Surroundings::Surroundings() : network_("127.0.0.1", test::port_of(server_.url())) {}

std::string Surroundings::url() const { return test::with_port(server_.url(), network_.port()); }

}  // namespace outbox::chaos
