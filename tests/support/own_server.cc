#include "support/own_server.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace outbox::test {

namespace {

std::string variable_of(const std::string& service) {
  if (service == "postgres") return "OUTBOX_TEST_POSTGRES";
  return service == "redis" ? "OUTBOX_TEST_REDIS" : "OUTBOX_TEST_MYSQL";
}

// A test may have several.
std::string next_name() {
  static std::atomic<int> number{0};
  return "restart-test-" + std::to_string(getpid()) + "-" + std::to_string(++number);
}

}  // namespace

OwnServer::OwnServer(std::string service, const std::string& options)
    : service_(std::move(service)), name_(next_name()) {
  run("start", options);
  const std::string key = variable_of(service_) + "=";
  std::ifstream file(OUTBOX_SOURCE_FOLDER "/build/services/" + name_ + "/environment");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) url_ = line.substr(key.size());
  }
  if (url_.empty()) throw std::runtime_error("scripts/services names no " + service_);
}

OwnServer::~OwnServer() {
  try {
    run("stop");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the server stays behind: %s\n", error.what());
  }
}

void OwnServer::restart(bool in_good_order) {
  if (in_good_order) return run("restart");
  run("kill");
  run("start");
}

void OwnServer::run(const std::string& command, const std::string& options) const {
  const std::string line = OUTBOX_SOURCE_FOLDER "/scripts/services " + command + " --name " +
                           name_ + " " + options + " " + service_ + " >&2";
  if (std::system(line.c_str()) != 0) throw std::runtime_error("failed: " + line);
}

}  // namespace outbox::test
