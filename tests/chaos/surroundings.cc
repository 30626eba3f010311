#include "surroundings.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#ifdef OUTBOX_WITH_POSTGRES
#include "support/postgres.h"
#endif
#include "support/services.h"

namespace outbox::chaos {
namespace {

constexpr const char* kName = "chaos-run";
constexpr const char* kScript = OUTBOX_SOURCE_FOLDER "/scripts/services";
constexpr const char* kEnvironment = OUTBOX_SOURCE_FOLDER "/build/services/chaos-run/environment";

// The exit code of scripts/services that says so.
constexpr int kNotFetched = 75;

// How long Patroni may take until it has promoted another one.
constexpr std::chrono::seconds kPromotion{90};

std::vector<std::string> names_of(const Settings& settings) {
  const bool mysql = settings.store == StoreKind::mysql;
  switch (settings.servers) {
    case Servers::one:
      break;
    case Servers::sync:
    case Servers::async:
      if (mysql) return {"mariadb", "mariadb-replica"};
      return {"postgres", "postgres-standby"};
    case Servers::galera:
      return {"galera-1", "galera-2", "galera-3"};
    case Servers::patroni:
    case Servers::patroni_sync:
      return {"patroni-1", "patroni-2"};
  }
  return {mysql ? "mariadb" : "postgres"};
}

std::vector<std::string> options_of(const Settings& settings) {
  switch (settings.servers) {
    case Servers::sync:
    case Servers::patroni_sync:
      return {"--standby", "sync"};
    case Servers::patroni:
      return {"--standby", "async"};
    case Servers::async:
      if (settings.store == StoreKind::postgres) return {"--standby", "async"};
      break;
    case Servers::one:
    case Servers::galera:
      break;
  }
  if (!settings.binlog) return {"--no-binlog"};
  return {};
}

// The variable that tells the URL of the server.
std::string variable_of(std::string name) {
  if (name.starts_with("mariadb")) name.replace(0, 7, "mysql");
  for (char& c : name) {
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return "OUTBOX_TEST_" + name + "=";
}

std::string url_in_environment(const std::string& name) {
  const std::string variable = variable_of(name);
  std::ifstream file(kEnvironment);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(variable)) return line.substr(variable.size());
  }
  throw std::runtime_error(std::string(kEnvironment) + " names no " + name);
}

// One that names them all. A server that is frozen takes connections, and says nothing.
std::string url_of_all(const Settings& settings, const std::vector<std::string>& urls) {
  if (urls.size() == 1) return urls.front();
  const std::string& last = urls.back();  // whose user is held to what a replica refuses
  std::string url = last.substr(0, last.find('@') + 1);
  for (const std::string& each : urls) {
    url += (url.ends_with('@') ? "" : ",");
    url += "127.0.0.1:" + std::to_string(test::port_of(each));
  }
  url += "/outbox?connect_timeout=2";
  return settings.store == StoreKind::postgres ? url + "&target_session_attrs=read-write" : url;
}

test::Wire wire_of(StoreKind store) {
  return store == StoreKind::postgres ? test::Wire::postgres : test::Wire::mysql;
}

}  // namespace

Server::Server(const Settings& settings) : settings_(settings), names_(names_of(settings)) {
  run("stop", {});
  try {
    start_all();
  } catch (const std::exception&) {
    stop_all();  // the first ones may run
    throw;
  }
}

Server::~Server() { stop_all(); }

void Server::start_all() {
  std::vector<std::string> arguments = options_of(settings_);
  if (is_patroni()) {
    arguments.emplace_back("patroni");
  } else {
    arguments.insert(arguments.end(), names_.begin(), names_.end());
  }
  run("start", arguments);
  for (const std::string& name : names_) urls_.push_back(url_in_environment(name));
  url_ = url_of_all(settings_, urls_);
}

void Server::stop_all() {
  try {
    run("stop", {});
  } catch (const std::exception& error) {
    fprintf(stderr, "the server stays behind: %s\n", error.what());
  }
}

bool Server::is_patroni() const {
  return settings_.servers == Servers::patroni || settings_.servers == Servers::patroni_sync;
}

void Server::kill() {
  former_ = primary_ = leader();
  run("kill", {names_[primary_]});
}

void Server::start() { run("start", {names_[former_]}); }

void Server::freeze() {
  former_ = primary_ = leader();
  run("freeze", {names_[primary_]});
}

void Server::thaw() {
  run("thaw", {names_[former_]});
  // Until then it is no server that clients could use, nor one that Patroni would promote.
  if (settings_.servers == Servers::galera || is_patroni()) run("rejoin", {names_[former_]});
}

void Server::promote() {
  former_ = primary_;
  primary_ = 1 - primary_;
  if (is_patroni()) return wait_until_leads(primary_);
  run("promote", {names_[primary_]});
}

void Server::follow() {
  // Patroni sees to it that one that was frozen follows, and needs only be there.
  run(is_patroni() ? "start" : "follow", {names_[former_]});
}

void Server::isolate() {
  former_ = primary_;
  run("isolate", {names_[settings_.servers == Servers::galera ? primary_ : 1 - primary_]});
}

void Server::rejoin() {
  run("rejoin", {names_[settings_.servers == Servers::galera ? primary_ : 1 - primary_]});
}

std::size_t Server::leader() const {
  if (!is_patroni()) return primary_;
  return leads(primary_) ? primary_ : 1 - primary_;
}

void Server::wait_until_leads(std::size_t server) const {
  const auto deadline = std::chrono::steady_clock::now() + kPromotion;
  while (!leads(server)) {
    if (std::chrono::steady_clock::now() >= deadline) {
      throw std::runtime_error("Patroni has not promoted " + names_[server]);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
  }
}

// Whether it takes writes, as it says itself.
bool Server::leads([[maybe_unused]] std::size_t server) const {
#ifdef OUTBOX_WITH_POSTGRES
  try {
    return test::Sql(urls_[server] + "?connect_timeout=2").value("SELECT pg_is_in_recovery()") ==
           "f";
  } catch (const std::runtime_error&) {
    return false;  // dead, frozen, or about to start
  }
#else
  return false;
#endif
}

void Server::run(const std::string& command, const std::vector<std::string>& arguments) const {
  std::vector<std::string> texts{kScript, command, "--name", kName};
  if (settings_.in_memory && (command == "start" || command == "follow")) {
    texts.emplace_back("--in-memory");
  }
  texts.insert(texts.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(texts.size() + 1);
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (const int error = posix_spawn(&pid, kScript, nullptr, nullptr, argv.data(), environ)) {
    throw std::system_error(error, std::generic_category(), kScript);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFetched) {
    throw NotFetched("what " + names_.front() + " needs could not be fetched; see above");
  }
  if (status != 0) {
    throw std::runtime_error(std::string(kScript) + " " + command + " failed; see above");
  }
}

Surroundings::Surroundings(const Settings& settings)
    : direct_(settings.servers != Servers::one),
      server_(settings),
      network_("127.0.0.1", direct_ ? 1 : test::port_of(server_.url()), wire_of(settings.store)) {}

std::string Surroundings::url() const {
  return direct_ ? server_.url() : test::with_port(server_.url(), network_.port());
}

}  // namespace outbox::chaos
