#include "client/redis/client.h"

#include <optional>
#include <utility>

#include "outbox/error.h"

namespace outbox::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLongestTimeout{std::chrono::hours{24}};

void check_timeout(const std::string& name, milliseconds value, milliseconds least) {
  if (value >= least && value <= kLongestTimeout) return;
  throw MisuseError("redis::Options::" + name + " is " + std::to_string(value.count()) +
                    " ms, from " + std::to_string(least.count()) + " ms to a day are possible");
}

void check(const ConnectOptions& target, const ClientOptions& options) {
  if (!target.tls && !(options.tls == TlsSettings{})) {
    throw MisuseError("redis::Options::tls is set, and the URL asks for no TLS: write rediss://");
  }
  if (options.connections == 0) {
    throw MisuseError("redis::Options::connections is 0, at least 1 is needed");
  }
  check_timeout("wait_timeout", options.wait_timeout, milliseconds{0});
  check_timeout("connect_timeout", options.timeouts.connect, milliseconds{1});
  check_timeout("timeout", options.timeouts.answer, milliseconds{1});
}

}  // namespace

// What the pool needs to open connections; it may outlive the client.
struct Client::Link {
  Link(ConnectOptions to, ClientOptions with) : target(std::move(to)), options(std::move(with)) {
    if (target.tls) tls.emplace(options.tls);
  }

  std::unique_ptr<Connection> open() {
    reconnection.check(steady_clock::now());
    try {
      auto connection =
          std::make_unique<Connection>(target, options.timeouts, tls ? &*tls : nullptr);
      reconnection.succeeded();
      if (away.exchange(false))
        options.log({LogLevel::info,
                     "redis_available",
                     "Redis is back: " + target.place(),
                     {{"server", target.place()}}});
      return connection;
    } catch (const UnavailableError& error) {
      reconnection.failed(error.what(), steady_clock::now());
      if (!away.exchange(true))
        options.log({LogLevel::warning,
                     "redis_unavailable",
                     error.what(),
                     {{"server", target.place()}, {"error", error.what()}}});
      throw;
    }
  }

  const ConnectOptions target;
  const ClientOptions options;
  std::optional<TlsContext> tls;
  // Well below the time for which a tracker tries to record an effect.
  Reconnection reconnection;
  std::atomic<bool> away{false};
};

Client::Client(ConnectOptions target, ClientOptions options)
    : place_(target.place()),
      link_(
          (check(target, options), std::make_shared<Link>(std::move(target), std::move(options)))),
      pool_(std::make_shared<ConnectionPool<Connection>>(PoolOptions<Connection>{
          .size = link_->options.connections,
          .wait_timeout = link_->options.wait_timeout,
          .description = "Redis at " + place_,
          .hint = "raise redis::Options::connections or wait_timeout",
          .open = [link = link_] { return link->open(); },
          .make_ready = [](Connection& connection) { return connection.reusable(); },
          .is_healthy = [](Connection& connection) { return connection.healthy(); }})) {}

Client::Handle Client::take() {
  try {
    return pool_->take();
  } catch (const UnavailableError&) {
    throw;
  } catch (const RetryableError& error) {
    // All are in use, or it is too early to connect again: nobody's fault either.
    throw UnavailableError(error.what());
  }
}

}  // namespace outbox::redis
