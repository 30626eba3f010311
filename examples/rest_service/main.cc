// A service that takes orders and users over HTTP and publishes events about them.
//
//   example_rest_service [port] [database]      default: 8080, a temporary file
//
// Port 0 takes any that is free. Ends cleanly on SIGTERM or SIGINT.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/telemetry/prometheus.h"
#include "server.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

web::Response json_response(int status, const Json& json) {
  // `replace`: an invalid byte that came in must not become an exception here.
  return {.status = status,
          .body = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"};
}

// The last events that were delivered, for GET /events. Thread-safe.
class Delivered {
 public:
  void add(const outbox::Event& event) {
    const std::lock_guard lock(mutex_);
    events_.push_front(event);
    if (events_.size() > kKept) events_.pop_back();
  }

  // The newest first.
  Json list() const {
    const std::lock_guard lock(mutex_);
    Json list = Json::array();
    for (const outbox::Event& event : events_) {
      list.push_back({{"eventId", event.id()},
                      {"eventType", event.type()},
                      {"aggregateType", event.aggregate_type()},
                      {"aggregateId", event.aggregate_id()},
                      {"headers", event.headers()},
                      {"payload", Json::parse(event.payload())}});
    }
    return list;
  }

 private:
  static constexpr std::size_t kKept = 100;
  mutable std::mutex mutex_;
  std::deque<outbox::Event> events_;
};

// Runs one transaction of a request. The client can correct what the library refuses, such as
// an id that is too long; for a database that is busy or unreachable it can only wait.
template <class Work>
web::Response transact(outbox::Outbox& box, Work work) {
  try {
    auto tx = box.begin();
    const Json answer = work(tx);
    tx.commit();
    return json_response(200, answer);
  } catch (const outbox::MisuseError& error) {
    throw web::RequestError(400, error.what());
  } catch (const Json::type_error&) {
    throw web::RequestError(400, "a parameter is not UTF-8");
  } catch (const outbox::RetryableError&) {
    auto response = web::error_response(503, "the database is busy; try again");
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }
}

web::Response user_created(outbox::Outbox& box, const web::Request& request) {
  const std::string name = request.require("name");
  return transact(box, [&](outbox::Transaction& tx) -> Json {
    const std::string user = outbox::new_id();
    tx.execute("INSERT INTO users (id, name) VALUES (?, ?)", user, name);
    // Never put together by hand: a quote in the name would end the text.
    const std::string event =
        tx.write({.type = "UserCreated",
                  .aggregate_type = "User",
                  .aggregate_id = user,
                  .payload = outbox::json(Json{{"userId", user}, {"name", name}}.dump()),
                  .headers = {{"source", "api"}}});
    return {{"status", "ok"}, {"eventId", event}, {"userId", user}};
  });
}

web::Response order_placed(outbox::Outbox& box, const web::Request& request) {
  const std::string order = request.require("orderId");
  return transact(box, [&](outbox::Transaction& tx) -> Json {
    const std::string event = tx.write({.type = "OrderPlaced",
                                        .aggregate_type = "Order",
                                        .aggregate_id = order,
                                        .payload = outbox::json(Json{{"orderId", order}}.dump()),
                                        .headers = {{"source", "api"}}});
    // Once: a client that repeats its request must not place the order twice.
    if (tx.execute("INSERT OR IGNORE INTO orders (id) VALUES (?)", order) == 0) {
      throw web::RequestError(409, "this order was placed before");
    }
    return {{"status", "ok"}, {"eventId", event}, {"orderId", order}};
  });
}

web::Response probe(bool good, const outbox::Health& health) {
  return json_response(good ? 200 : 503,
                       {{"status", good ? "ok" : "failing"}, {"reasons", health.reasons}});
}

web::Routes routes(outbox::Outbox& box, const Delivered& delivered,
                   const outbox::prometheus::Registry& registry) {
  web::Routes routes;
  routes["/events/user-created"]["POST"] = [&](const web::Request& request) {
    return user_created(box, request);
  };
  routes["/events/order-placed"]["POST"] = [&](const web::Request& request) {
    return order_placed(box, request);
  };
  routes["/events"]["GET"] = [&](const web::Request&) {
    return json_response(200, {{"events", delivered.list()}});
  };
  routes["/metrics"]["GET"] = [&](const web::Request&) {
    return web::Response{.content_type = outbox::prometheus::Registry::kContentType,
                         .body = registry.text()};
  };
  // Not live: restart me. Not ready: send me no requests for now.
  routes["/livez"]["GET"] = [&](const web::Request&) {
    const outbox::Health health = box.health();
    return probe(health.live, health);
  };
  routes["/readyz"]["GET"] = [&](const web::Request&) {
    const outbox::Health health = box.health();
    return probe(health.ready, health);
  };
  return routes;
}

void create_tables(outbox::Outbox& box) {
  auto tx = box.begin();
  tx.execute("CREATE TABLE IF NOT EXISTS users (id TEXT PRIMARY KEY, name TEXT)");
  tx.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)");
  tx.commit();
}

void run(std::uint16_t port, const std::string& path) {
  // Before the first thread, so that all of them leave these signals to sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  Delivered delivered;
  outbox::Listeners on;
  on.add("User", "UserCreated", [&](const outbox::Event& event) { delivered.add(event); });
  on.add("Order", "OrderPlaced", [&](const outbox::Event& event) { delivered.add(event); });
  outbox::prometheus::Registry registry;
  outbox::Outbox box{outbox::sqlite::open(path), on, {.metrics = registry.stack()}};
  create_tables(box);
  box.start();
  web::Server server{routes(box, delivered, registry), port};
  std::cout << "listening on http://127.0.0.1:" << server.port() << std::endl;

  int signal = 0;
  sigwait(&signals, &signal);
  server.stop();  // first, because the handlers use the outbox
  box.close();    // delivers what is under way; the rest waits in the table
  std::cout << "stopped by signal " << signal << std::endl;
}

std::uint16_t port_from(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
  const long port = digits && !text.empty() && text.size() <= 5 ? std::stol(text) : -1;
  if (port < 0 || port > 65'535) throw std::invalid_argument("\"" + text + "\" is no port");
  return static_cast<std::uint16_t>(port);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::uint16_t port = argc > 1 ? port_from(argv[1]) : 8080;
    if (argc > 2) {
      run(port, argv[2]);
      return EXIT_SUCCESS;
    }
    const fs::path folder = fs::temp_directory_path() / ("outbox-rest-service-" + outbox::new_id());
    fs::create_directory(folder);
    run(port, (folder / "shop.db").string());
    fs::remove_all(folder);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "rest_service: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
