#include "support/services.h"

#include <cstdlib>
#include <stdexcept>
#include <string_view>

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

}  // namespace outbox::test
