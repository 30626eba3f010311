// The only file that knows Boost. Our own header comes first and brings <utility>, which
// Boost 1.74 forgets to include where C++20 needs it.
#include "http/server.h"

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/quote.h"
#include "base/rate_limit.h"
#include "base/thread.h"
#include "http/message.h"
#include "outbox/clock.h"

namespace outbox::http {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 4'096;
// How long a client whose request was not read to its end may go on sending. If we
// closed at once, the reset would take our answer with it.
constexpr milliseconds kLinger{2'000};
// This many connections above the limit are told so; the rest wait in the backlog.
constexpr std::size_t kMaxRefused = 32;
constexpr milliseconds kAcceptPause{100};

class Connection;

// What a connection needs of its server; called on the network thread.
class Hub {
 public:
  virtual ~Hub() = default;
  virtual const ServerOptions& options() const = 0;
  virtual bool stopping() const = 0;
  virtual std::stop_token stop_token() const = 0;
  // Runs the handler on a worker, then `done` on the network thread. The request must
  // stay as it is until then.
  virtual void call(const Request& request, std::function<void(Response)> done) = 0;
  virtual void ended(const std::shared_ptr<Connection>& connection) = 0;
};

// Control characters would end the line, and let a value write headers of its own.
bool fits_in_header(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == '\x7f'; });
}

bool is_token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

bool is_sendable(const Response& response) {
  return response.status >= 200 && response.status <= 599 &&
         fits_in_header(response.content_type) &&
         std::all_of(response.headers.begin(), response.headers.end(), [](const auto& field) {
           return is_token(field.first) && fits_in_header(field.second);
         });
}

// One client: reads a request, has it answered, writes the answer, and again.
//
// Lives on the network thread; only the request is lent to a worker meanwhile. There is
// always exactly one operation or call under way, and it keeps the object alive.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Hub& hub, tcp::socket socket)
      : hub_(hub),
        socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        buffer_(hub.options().max_header_bytes + kReadBytes) {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
  }

  void serve() { wait_for_request(); }

  void refuse() {
    Response response = error_response(503, "too many connections; try again later");
    response.headers.emplace_back("Retry-After", "1");
    keep_alive_ = false;
    respond(std::move(response));
  }

  // Lets go of what is not being answered.
  void stop() {
    error_code ignored;
    if (state_ == State::receiving) {
      socket_.cancel(ignored);
    } else if (state_ == State::waiting || state_ == State::lingering) {
      cut();
    }
  }

  // Ends whatever is under way; a call of a handler ends when it does.
  void cut() {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  enum class State { waiting, receiving, handling, sending, lingering };

  void wait_for_request() {
    if (hub_.stopping()) return end();
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(hub_.options().max_header_bytes));
    parser_->body_limit(hub_.options().max_body_bytes);
    version_ = 11;
    is_head_ = false;
    keep_alive_ = false;
    received_ = false;
    if (buffer_.size() > 0) return read_head();  // pipelined
    enter(State::waiting, hub_.options().idle_timeout);
    socket_.async_read_some(buffer_.prepare(kReadBytes),
                            [self = shared_from_this()](error_code error, std::size_t size) {
                              if (error) return self->end();
                              self->buffer_.commit(size);
                              self->read_head();
                            });
  }

  void read_head() {
    if (hub_.stopping()) return not_received(asio::error::operation_aborted);
    enter(State::receiving, hub_.options().request_timeout);
    bhttp::async_read_header(socket_, buffer_, *parser_,
                             [self = shared_from_this()](error_code error, std::size_t) {
                               if (error) return self->not_received(error);
                               self->take_head();
                             });
  }

  void take_head() {
    try {
      check_head();
    } catch (const RequestError& error) {
      return respond(error_response(error.status(), error.what()));
    }
    if (parser_->is_done()) return handle();
    const auto& head = parser_->get();
    if (head.find(bhttp::field::expect) == head.end()) return read_body();
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(socket_, asio::buffer(kContinue),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (error) return self->not_received(error);
                        self->read_body();
                      });
  }

  // Fills in the request; throws RequestError if it is not one that we serve.
  void check_head() {
    const auto& head = parser_->get();
    if (head.version() != 10 && head.version() != 11) {
      throw RequestError(505, "this server speaks HTTP/1.0 and HTTP/1.1");
    }
    version_ = head.version();
    is_head_ = head.method() == bhttp::verb::head;
    const std::size_t hosts = head.count(bhttp::field::host);
    if (hosts > 1 || (hosts == 0 && version_ == 11)) {
      throw RequestError(400, "the request needs one Host header");
    }
    // Any other coding would leave it open where the body ends.
    const auto coding = head.find(bhttp::field::transfer_encoding);
    if (coding != head.end() && !beast::iequals(coding->value(), "chunked")) {
      throw RequestError(501, "the only Transfer-Encoding that is understood is chunked");
    }
    const auto expect = head.find(bhttp::field::expect);
    if (expect != head.end() && !beast::iequals(expect->value(), "100-continue")) {
      throw RequestError(417, "the only expectation that can be met is 100-continue");
    }
    request_ = Request{.method = std::string(head.method_string()),
                       .target = parse_request_target(std::string(head.target())),
                       .stop = hub_.stop_token()};
    for (const auto& field : head) {
      request_.headers.emplace_back(field.name_string(), field.value());
    }
  }

  void read_body() {
    if (hub_.stopping()) return not_received(asio::error::operation_aborted);
    bhttp::async_read(socket_, buffer_, *parser_,
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (error) return self->not_received(error);
                        self->handle();
                      });
  }

  void not_received(error_code error) {
    if (timed_out_) {
      return respond(error_response(408, "the request was not complete in time"));
    }
    if (error == asio::error::operation_aborted) {
      // Either to stop gently, or cut: then the answer just fails.
      return respond(error_response(503, "the server is stopping"));
    }
    if (!parser_->is_header_done() &&
        (error == bhttp::error::header_limit || error == bhttp::error::buffer_overflow)) {
      return respond(error_response(431, "the header of the request is larger than " +
                                             std::to_string(hub_.options().max_header_bytes) +
                                             " bytes"));
    }
    if (error == bhttp::error::body_limit) {
      return respond(error_response(413, "the body of the request is larger than " +
                                             std::to_string(hub_.options().max_body_bytes) +
                                             " bytes"));
    }
    if (error == bhttp::error::bad_version) {
      return respond(error_response(505, "this server speaks HTTP/1.0 and HTTP/1.1"));
    }
    static const auto& grammar = bhttp::make_error_code(bhttp::error::bad_method).category();
    if (error.category() != grammar || error == bhttp::error::end_of_stream) return end();
    respond(error_response(400, "the request is malformed: " + error.message()));
  }

  void handle() {
    request_.body = std::move(parser_->get().body());
    keep_alive_ = parser_->get().keep_alive();
    received_ = true;
    enter(State::handling);
    hub_.call(request_, [self = shared_from_this()](Response response) {
      self->respond(std::move(response));
    });
  }

  void respond(Response response) {
    if (hub_.stopping()) keep_alive_ = false;
    enter(State::sending, hub_.options().response_timeout);
    response_.emplace(static_cast<bhttp::status>(response.status), version_);
    response_->set(bhttp::field::date, http_date(host_clock().now()));
    response_->set("X-Content-Type-Options", "nosniff");
    for (const auto& [name, value] : response.headers) response_->insert(name, value);
    response_->keep_alive(keep_alive_);
    if (response.status != 204 && response.status != 304) {
      response_->set(bhttp::field::content_type, response.content_type);
      response_->body() = std::move(response.body);
      response_->prepare_payload();
    }
    serializer_.emplace(*response_);
    auto sent = [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->end();
      if (self->keep_alive_) return self->wait_for_request();
      // A client that is owed nothing more need not hold up the end.
      if (self->received_ && self->hub_.stopping()) return self->end();
      self->linger();
    };
    if (is_head_) {
      bhttp::async_write_header(socket_, *serializer_, std::move(sent));
    } else {
      bhttp::async_write(socket_, *serializer_, std::move(sent));
    }
  }

  void linger() {
    error_code error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    if (error) return end();
    buffer_.clear();
    enter(State::lingering, kLinger);
    discard();
  }

  void discard() {
    socket_.async_read_some(buffer_.prepare(kReadBytes),
                            [self = shared_from_this()](error_code error, std::size_t) {
                              if (error) return self->end();
                              self->discard();
                            });
  }

  void end() {
    cut();
    timer_.cancel();
    hub_.ended(shared_from_this());
  }

  // Without a limit the state may last for ever.
  void enter(State state, std::optional<milliseconds> limit = {}) {
    state_ = state;
    timed_out_ = false;
    if (!limit) {
      timer_.expires_at(steady_clock::time_point::max());
      return;
    }
    timer_.expires_after(*limit);
    // Weak, so that an ended connection is gone at once.
    timer_.async_wait([weak = weak_from_this()](error_code error) {
      const auto self = weak.lock();
      // It may have been set again when this was queued already.
      if (error || !self || self->timer_.expiry() > steady_clock::now()) return;
      self->expire();
    });
  }

  void expire() {
    if (state_ != State::receiving) return cut();
    timed_out_ = true;
    error_code ignored;
    socket_.cancel(ignored);
  }

  Hub& hub_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  beast::flat_buffer buffer_;
  State state_ = State::waiting;
  bool timed_out_ = false;
  std::optional<bhttp::request_parser<bhttp::string_body>> parser_;
  unsigned version_ = 11;
  bool is_head_ = false;
  bool keep_alive_ = false;
  bool received_ = false;  // the request, to its end
  Request request_;
  std::optional<bhttp::response<bhttp::string_body>> response_;
  std::optional<bhttp::response_serializer<bhttp::string_body>> serializer_;
};

ServerOptions checked(ServerOptions options) {
  const auto refuse = [](const std::string& what) {
    throw MisuseError("http::ServerOptions: " + what);
  };
  if (options.workers < 1 || options.workers > 1'000) {
    refuse("workers is " + std::to_string(options.workers) + "; use 1 to 1000");
  }
  if (options.max_connections < 1) refuse("max_connections is 0; use at least 1");
  if (options.max_header_bytes < 256 || options.max_header_bytes > 1'048'576) {
    refuse("max_header_bytes is " + std::to_string(options.max_header_bytes) +
           "; use 256 to 1048576");
  }
  for (const auto& [name, value] : {std::pair{"request_timeout", options.request_timeout},
                                    {"idle_timeout", options.idle_timeout},
                                    {"response_timeout", options.response_timeout},
                                    {"drain_timeout", options.drain_timeout}}) {
    if (value <= milliseconds{0} || value > std::chrono::hours{24}) {
      refuse(std::string(name) + " is " + std::to_string(value.count()) +
             " ms; use more than 0 and at most 24 hours");
    }
  }
  if (!options.log) options.log = standard_error_log();
  return options;
}

}  // namespace

class Server::Impl final : public Hub {
 public:
  Impl(Routes routes, ServerOptions options)
      : options_(checked(std::move(options))), routes_(std::move(routes)) {
    listen();
    accept();
    try {
      start_threads();
    } catch (...) {
      stop();  // or the threads that did start would never end
      throw;
    }
  }

  ~Impl() override { stop(); }

  std::uint16_t port() const { return port_; }

  void stop() OUTBOX_EXCLUDES(stop_mutex_) {
    const MutexLock lock(stop_mutex_);  // a second caller waits for the first
    if (!network_thread_.joinable()) return;
    asio::post(network_, [this] { begin_to_stop(); });
    stop_source_.request_stop();
    network_thread_.join();
    // Whatever still waits for its turn has nobody left to answer to.
    work_.stop();
    for (std::jthread& worker : workers_) worker.join();
  }

 private:
  const ServerOptions& options() const override { return options_; }
  bool stopping() const override { return stopping_; }
  std::stop_token stop_token() const override { return stop_source_.get_token(); }

  void call(const Request& request, std::function<void(Response)> done) override {
    asio::post(work_, [this, &request, done = std::move(done)]() mutable {
      asio::post(network_, [done = std::move(done), response = answer(request)]() mutable {
        done(std::move(response));
      });
    });
  }

  Response answer(const Request& request) {
    std::string problem;
    try {
      Response response = routes_.answer(request);
      if (is_sendable(response)) return response;
      problem = "made a response whose status or headers cannot be sent";
    } catch (const RequestError& error) {
      return error_response(error.status(), error.what());
    } catch (const std::exception& error) {
      problem = std::string("threw: ") + printable(error.what());
    } catch (...) {
      problem = "threw something that is not a std::exception";
    }
    options_.log({LogLevel::error,
                  "http_handler_failed",
                  "http: the handler of " + printable(request.method) + " " +
                      quote(request.target.path) + " " + problem,
                  {{"method", request.method}, {"path", request.target.path}}});
    return error_response(500, "the request failed; the server's log says why");
  }

  void start_threads() {
    network_thread_ = std::jthread([this] {
      name_this_thread("http");
      run(network_);
    });
    for (int i = 0; i < options_.workers; ++i) {
      workers_.emplace_back([this] {
        name_this_thread("http-worker");
        run(work_);
      });
    }
  }

  void listen() {
    error_code error;
    const auto address = asio::ip::make_address(options_.address, error);
    if (error) {
      throw MisuseError("http::ServerOptions: the address " + quote(options_.address) +
                        " is not an IP address");
    }
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    // Or a restart would have to wait for the connections of the last run to fade.
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error) {
      throw PermanentError("cannot listen on " + options_.address + " port " +
                           std::to_string(options_.port) + ": " + error.message() +
                           "; choose another address or port");
    }
  }

  void accept() {
    acceptor_.async_accept(network_, [this](error_code error, tcp::socket socket) {
      if (stopping_) return;
      if (error) return accept_later(error);
      const bool full = connections_.size() >= options_.max_connections;
      const auto connection = std::make_shared<Connection>(*this, std::move(socket));
      connections_.insert(connection);
      if (full) {
        connection->refuse();
      } else {
        connection->serve();
      }
      accepting_ = connections_.size() < options_.max_connections + kMaxRefused;
      if (accepting_) accept();
    });
  }

  // Out of descriptors or memory: asking again at once would only burn the processor.
  void accept_later(error_code error) {
    if (accept_warning_.allow(host_clock().steady())) {
      options_.log({LogLevel::warning,
                    "http_accept_failed",
                    "http: cannot take a connection: " + error.message(),
                    {{"error", error.message()}}});
    }
    timer_.expires_after(kAcceptPause);
    timer_.async_wait([this](error_code cancelled) {
      if (!cancelled && !stopping_) accept();
    });
  }

  void ended(const std::shared_ptr<Connection>& connection) override {
    connections_.erase(connection);
    if (stopping_) {
      if (connections_.empty()) network_.stop();
    } else if (!accepting_) {
      accepting_ = true;
      accept();
    }
  }

  void begin_to_stop() {
    stopping_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    if (connections_.empty()) return network_.stop();
    for (const auto& connection : connections_) connection->stop();
    timer_.expires_after(options_.drain_timeout);
    timer_.async_wait([this](error_code cancelled) {
      if (cancelled) return;
      for (const auto& connection : connections_) connection->cut();
      network_.stop();
    });
  }

  // Until the context is stopped. An exception can only come from want of memory; it
  // costs one connection, not the server.
  void run(asio::io_context& context) {
    const auto guard = asio::make_work_guard(context);
    while (!context.stopped()) {
      try {
        context.run();
      } catch (const std::exception& error) {
        options_.log({LogLevel::error,
                      "http_failed",
                      std::string("http: ") + printable(error.what()),
                      {{"error", error.what()}}});
      }
    }
  }

  // Constant after construction.
  const ServerOptions options_;
  const Routes routes_;
  std::uint16_t port_ = 0;

  // Of the network thread. What is queued in the contexts refers to what stands above.
  asio::io_context network_{1};
  asio::io_context work_;
  tcp::acceptor acceptor_{network_};
  asio::steady_timer timer_{network_};
  std::unordered_set<std::shared_ptr<Connection>> connections_;
  bool accepting_ = true;
  bool stopping_ = false;
  RateLimit accept_warning_{std::chrono::seconds{10}};

  std::stop_source stop_source_;
  Mutex stop_mutex_;
  std::jthread network_thread_;
  std::vector<std::jthread> workers_;
};

Server::Server(Routes routes, ServerOptions options)
    : impl_(std::make_unique<Impl>(std::move(routes), std::move(options))) {}
Server::~Server() = default;
std::uint16_t Server::port() const { return impl_->port(); }
void Server::stop() { impl_->stop(); }

}  // namespace outbox::http
