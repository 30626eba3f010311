#include "support/services.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace outbox::test {
namespace {

std::string_view variable_value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string url_in(const char* variable) {
  if (const auto problem = missing_service(variable)) throw std::runtime_error(*problem);
  return std::string(variable_value(variable));
}

struct Port {
  std::size_t begin, end;
};

Port find_port(const std::string& url) {
  const std::size_t host = url.find("://");
  if (host == url.npos) throw std::runtime_error("not a URL: '" + url + "'");
  const std::size_t end = std::min(url.find_first_of("/?", host + 3), url.size());
  const std::size_t colon = url.rfind(':', end);
  if (colon <= host || colon + 1 >= end || url.find_first_of("@]", colon) < end) {
    throw std::runtime_error("a URL without a port: '" + url + "'");
  }
  return {.begin = colon + 1, .end = end};
}

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

std::string postgres_url() { return url_in("OUTBOX_TEST_POSTGRES"); }
std::string pgbouncer_url() { return url_in("OUTBOX_TEST_PGBOUNCER"); }
std::string mysql_url() { return url_in("OUTBOX_TEST_MYSQL"); }
std::string redis_url() { return url_in("OUTBOX_TEST_REDIS"); }

std::optional<std::string> missing_service(const char* variable) {
  if (!variable_value(variable).empty()) return std::nullopt;
  return std::string(variable) +
         " is not set: run `scripts/services start` and export what it writes into "
         "build/services/environment, or run `scripts/test`, which does both";
}

bool services_required() { return variable_value("OUTBOX_TEST_REQUIRE_SERVICES") == "1"; }

int port_of(const std::string& url) {
  const Port port = find_port(url);
  return std::stoi(url.substr(port.begin, port.end - port.begin));
}

std::string with_port(const std::string& url, int port) {
  const Port old = find_port(url);
  return url.substr(0, old.begin) + std::to_string(port) + url.substr(old.end);
}

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
