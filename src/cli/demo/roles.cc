#include "cli/demo/roles.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "cli/demo/ledger.h"
#include "cli/demo/messages.h"
#include "cli/demo/process.h"
#include "cli/demo/shop.h"
#include "outbox/error.h"
#include "outbox/outbox.h"

namespace outbox::demo {
namespace {

using Kind = Report::Kind;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

// --- The writer ---

constexpr int kCustomers = 20;
constexpr int kOneInSoManyRolledBack = 10;

// How long to leave a database alone that does not let us write.
constexpr std::chrono::milliseconds kPause{200};

class Shop {
 public:
  explicit Shop(const WriterOptions& options)
      : writer_(open_shop(options.directory.database.string(), telling_log())),
        rolled_back_(options.directory.rollbacks()),
        random_(options.seed) {}

  void sell() {
    const std::string customer = "customer-" + std::to_string(pick(1, kCustomers));
    const int cents = pick(100, 20'000);
    auto tx = writer_.begin();
    const Order order = place_order(tx, customer, cents);
    if (pick(1, kOneInSoManyRolledBack) == 1) {
      // Written down first: a rollback that nobody remembers could not be
      // told from an order that was lost.
      rolled_back_.append(order.event_id);
      rolled_back_.sync();
      tx.rollback();
      tell({.kind = Kind::rolled_back, .id = order.event_id});
    } else {
      tx.commit();
      tell({.kind = Kind::committed, .id = order.event_id, .at = steady_clock::now()});
    }
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>{least, most}(random_); }

  Writer writer_;
  Ledger rolled_back_;
  std::mt19937_64 random_;
};

// --- The dispatcher ---

Message message_of(const Event& event) {
  const auto number = to_number<int>(event.header("number").value_or(""));
  if (!number) throw PermanentError("no number in the headers of event " + event.id());
  return {.id = event.id(), .customer = event.aggregate_id(), .number = *number};
}

// Hands events to the receiver, and says when it goes away and comes back.
class ToReceiver final : public Listener {
 public:
  explicit ToReceiver(const RunDirectory& directory) : client_(directory.socket(), 1s) {}

  Outcome on_event(const Event& event, const Delivery&) override {
    try {
      client_.deliver(message_of(event));
    } catch (const UnavailableError& error) {
      if (!away_.exchange(true)) tell({.text = std::string(error.what()) + "; events wait"});
      throw;
    }
    if (away_.exchange(false)) tell({.text = "the receiver is back"});
    return Outcome::done();
  }

 private:
  Client client_;
  std::atomic<bool> away_{false};
};

Listeners listeners(const RunDirectory& directory) {
  Listeners on;
  on.add(kAggregate, kEvent,
         std::static_pointer_cast<Listener>(std::make_shared<ToReceiver>(directory)));
  return on;
}

// --- The receiver ---

// Whoever sends; at most one request of each is under way.
struct Peer {
  Descriptor socket;
  std::string unread{};
};

class Receiver {
 public:
  explicit Receiver(const ReceiverOptions& options)
      : forget_next_(options.forget_one), ledger_(options.directory.receipts()) {
    for (const std::string& line : read_ledger(options.directory.receipts())) {
      if (auto message = Message::parse(line)) known_.insert(std::move(message->id));
    }
    if (!known_.empty()) forget_next_ = false;  // an earlier process has done so
    listening_ = listen_on(options.directory.socket());
  }

  void serve(StopSignal& stop) {
    while (true) {
      std::vector<pollfd> waiting{{.fd = stop.descriptor(), .events = POLLIN, .revents = 0},
                                  {.fd = listening_.get(), .events = POLLIN, .revents = 0}};
      for (const Peer& peer : peers_) {
        waiting.push_back({.fd = peer.socket.get(), .events = POLLIN, .revents = 0});
      }
      if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
      if (waiting[0].revents != 0) return;
      for (std::size_t n = 0; n < peers_.size(); ++n) {
        if (waiting[n + 2].revents != 0) read(peers_[n]);
      }
      write_down();
      std::erase_if(peers_, [](const Peer& peer) { return !peer.socket; });
      if (waiting[1].revents != 0) accept();
    }
  }

 private:
  struct Arrival {
    Message message;
    int from;  // the socket that waits for the answer
    Moment at;
  };

  void accept() {
    Descriptor socket{accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket) peers_.push_back({.socket = std::move(socket)});
  }

  void read(Peer& peer) {
    char buffer[4096];
    const ssize_t got = recv(peer.socket.get(), buffer, sizeof buffer, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      peer.socket.reset();
      return;
    }
    if (got > 0) peer.unread.append(buffer, static_cast<std::size_t>(got));
    for (auto end = peer.unread.find('\n'); end != std::string::npos;
         end = peer.unread.find('\n')) {
      if (auto message = Message::parse(std::string_view(peer.unread).substr(0, end))) {
        arrivals_.push_back({std::move(*message), peer.socket.get(), Moment::clock::now()});
      } else {
        answer(peer.socket.get(), '-');
      }
      peer.unread.erase(0, end + 1);
    }
  }

  // Everything that arrived in this round with one sync; then, and only then,
  // the acknowledgements.
  void write_down() {
    if (arrivals_.empty()) return;
    std::erase_if(arrivals_, [this](const Arrival& arrival) {
      if (!forgets()) return false;
      answer(arrival.from, '+');
      return true;
    });
    for (const Arrival& arrival : arrivals_) ledger_.append(arrival.message.line());
    ledger_.sync();
    for (const Arrival& arrival : arrivals_) answer(arrival.from, '+');
    for (const Arrival& arrival : arrivals_) {
      const bool is_new = known_.insert(arrival.message.id).second;
      tell({.kind = is_new ? Kind::received : Kind::duplicate,
            .id = arrival.message.id,
            .at = arrival.at});
    }
    arrivals_.clear();
  }

  // The very first order, if it is told to.
  bool forgets() { return std::exchange(forget_next_, false); }

  // One who does not wait for the answer any more will send the event again.
  static void answer(int socket, char text) { send(socket, &text, 1, MSG_NOSIGNAL); }

  bool forget_next_;
  Ledger ledger_;
  std::unordered_set<std::string> known_;
  Descriptor listening_;
  std::vector<Peer> peers_;
  std::vector<Arrival> arrivals_;
};

}  // namespace

void run(const WriterOptions& options) {
  name_this_thread("outbox-write");  // or it would be called "exe"
  StopSignal stop;
  Shop shop(options);
  tell({.kind = Kind::ready});
  const std::chrono::microseconds step{1'000'000 / options.rate};
  auto next = steady_clock::now();
  while (true) {
    try {
      shop.sell();
    } catch (const RetryableError& error) {
      tell({.text = std::string("could not sell: ") + error.what()});
      if (stop.wait_for(kPause)) return;
    }
    // A shop that fell behind does not make up for it: customers do not wait.
    next = std::max(next + step, steady_clock::now() - step);
    if (stop.wait_for(std::chrono::duration_cast<std::chrono::microseconds>(
            std::max(next - steady_clock::now(), steady_clock::duration::zero())))) {
      return;
    }
  }
}

void run(const DispatcherOptions& options) {
  name_this_thread("outbox-dispatch");  // or it would be called "exe"
  StopSignal stop;
  Outbox box{open_shop(options.directory.database.string(), telling_log()),
             listeners(options.directory),
             {// Whoever heals the receiver wants to see the events flow at once.
              .breaker = {.max_pause = 500ms},
              // The kills come from outside: no event is to blame for them.
              .max_solo_crashes = 1000,
              .name = "demo",
              .log = telling_log()}};
  box.start();
  tell({.kind = Report::Kind::ready});
  stop.wait();
  box.close();
}

void run(const ReceiverOptions& options) {
  name_this_thread("outbox-receive");  // or it would be called "exe"
  StopSignal stop;
  Receiver receiver(options);
  tell({.kind = Kind::ready});
  receiver.serve(stop);
}

}  // namespace outbox::demo
