#include "collector.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "support/sockets.h"

namespace outbox::telemetry_tests {
namespace {

using namespace std::chrono_literals;

bool eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

std::string fetch() {
  FILE* pipe = popen(OUTBOX_FETCH_COLLECTOR, "r");
  if (pipe == nullptr) throw std::runtime_error("popen " OUTBOX_FETCH_COLLECTOR);
  std::string path;
  std::array<char, 4096> buffer{};
  while (fgets(buffer.data(), buffer.size(), pipe) != nullptr) path += buffer.data();
  if (pclose(pipe) != 0) throw std::runtime_error(OUTBOX_FETCH_COLLECTOR " failed; see above");
  while (!path.empty() && path.back() == '\n') path.pop_back();
  return path;
}

// Free when it was looked for.
int free_port() { return test::local_port(test::bind_loopback(0)); }

bool listens(int port) {
  try {
    test::connect_to_loopback(port);
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// Reads the collector's account of the spans it received, of the form
//   Resource attributes:
//        -> service.name: Str(shop)
//   Span #0
//       Trace ID       : 0af7651916cd43dd8448eb211c80319c
//   Attributes:
//        -> messaging.system: Str(outbox)
std::vector<ReceivedSpan> parse(const std::string& log) {
  std::vector<ReceivedSpan> spans;
  std::map<std::string, std::string> resource;
  bool in_resource = false;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line == "Resource attributes:") {
      resource.clear();
      in_resource = true;
    } else if (line.starts_with("Span #")) {
      spans.emplace_back().resource = resource;
      in_resource = false;
    } else if (const std::size_t arrow = line.find("-> "); arrow != line.npos) {
      const std::string rest = line.substr(arrow + 3);
      const std::size_t colon = rest.find(": ");
      auto& into = in_resource || spans.empty() ? resource : spans.back().attributes;
      into[rest.substr(0, colon)] = rest.substr(colon + 2);
    } else if (const std::size_t colon = line.find(": "); colon != line.npos && !spans.empty()) {
      const std::string key = trimmed(line.substr(0, colon));
      const std::string value = line.substr(colon + 2);
      ReceivedSpan& span = spans.back();
      if (key == "Trace ID") span.trace_id = value;
      if (key == "ID") span.id = value;
      if (key == "Parent ID") span.parent_id = value;
      if (key == "Name") span.name = value;
      if (key == "Kind") span.kind = value;
      if (key == "TraceState") span.state = value;
      if (key == "Status code") span.status = value;
      if (key == "Status message") span.status_message = value;
    }
  }
  return spans;
}

}  // namespace

Collector::Collector() {
  setenv("no_proxy", "*", 1);  // whatever the machine has set up for the world outside
  const std::string program = fetch();
  std::string pattern = std::filesystem::temp_directory_path() / "outbox_collector_XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp: " + pattern);
  folder_ = pattern;
  // Somebody else may take a port between its choice and its use.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (start(program)) return;
    stop();
  }
  const std::string last_words = said();
  std::filesystem::remove_all(folder_);
  throw std::runtime_error("the collector does not come up: " + last_words);
}

Collector::~Collector() {
  stop();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string Collector::url() const {
  return "http://127.0.0.1:" + std::to_string(port_) + "/v1/traces";
}

bool Collector::start(const std::string& program) {
  port_ = free_port();
  const std::string http = "127.0.0.1:" + std::to_string(port_);
  const std::string grpc = "127.0.0.1:" + std::to_string(free_port());
  const std::string log = folder_ + "/log";
  const std::string pid_file = folder_ + "/pid";
  std::vector<std::string> arguments{program,
                                     "start",
                                     "--otlp-http-endpoint",
                                     http,
                                     "--otlp-grpc-endpoint",
                                     grpc,
                                     "--exporter",
                                     "blackhole",
                                     "--debug-log",
                                     "traces",
                                     "--debug-log-verbosity",
                                     "detailed",
                                     "--batch-timeout",
                                     "10ms",
                                     "--pid-file",
                                     pid_file};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it must not outlive a test that is killed
    if (getppid() != parent) _exit(1);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(program.c_str(), pointers.data());
    _exit(127);
  }
  if (pid_ < 0) return false;
  bool ended = false;
  const bool up = eventually([&] {
    ended = waitpid(pid_, nullptr, WNOHANG) == pid_;
    return ended || listens(port_);
  });
  if (ended) pid_ = -1;
  return up && !ended;
}

void Collector::stop() {
  if (pid_ < 0) return;
  kill(pid_, SIGTERM);
  if (!eventually([&] { return waitpid(pid_, nullptr, WNOHANG) == pid_; })) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
}

std::optional<std::vector<ReceivedSpan>> Collector::wait_for(std::size_t spans) const {
  // The last line that it writes of a span is an attribute: wait for all of them.
  std::string before;
  auto changed = std::chrono::steady_clock::now();
  const bool complete = eventually([&] {
    std::string now = said();
    if (now != before) {
      before = std::move(now);
      changed = std::chrono::steady_clock::now();
    }
    return std::chrono::steady_clock::now() - changed > 500ms && parse(before).size() >= spans;
  });
  if (!complete) return std::nullopt;
  return parse(before);
}

std::string Collector::said() const {
  std::ifstream file(folder_ + "/log", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace outbox::telemetry_tests
