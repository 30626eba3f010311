#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "cli/demo/ledger.h"
#include "cli/demo/report.h"
#include "cli/demo/role.h"
#include "cli/demo/stop_signal.h"
#include "cli/demo/wire.h"

namespace outbox::demo {
namespace {

using Kind = Report::Kind;

// Whoever sends; at most one request of each is under way.
struct Client {
  Descriptor socket;
  std::string unread{};
};

class Receiver {
 public:
  explicit Receiver(const ReceiverRole& role)
      : forget_next_(role.forget_one), ledger_(role.workplace.receipts()) {
    for (const std::string& line : read_ledger(role.workplace.receipts())) {
      if (auto parcel = Parcel::parse(line)) known_.insert(std::move(parcel->id));
    }
    if (!known_.empty()) forget_next_ = false;  // an earlier process has done so
    listening_ = listen_on(role.workplace.socket());
  }

  void serve(StopSignal& stop) {
    while (true) {
      std::vector<pollfd> waiting{{.fd = stop.descriptor(), .events = POLLIN, .revents = 0},
                                  {.fd = listening_.get(), .events = POLLIN, .revents = 0}};
      for (const Client& client : clients_) {
        waiting.push_back({.fd = client.socket.get(), .events = POLLIN, .revents = 0});
      }
      if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
      if (waiting[0].revents != 0) return;
      for (std::size_t n = 0; n < clients_.size(); ++n) {
        if (waiting[n + 2].revents != 0) read(clients_[n]);
      }
      write_down();
      std::erase_if(clients_, [](const Client& client) { return !client.socket; });
      if (waiting[1].revents != 0) accept();
    }
  }

 private:
  struct Arrival {
    Parcel parcel;
    int from;  // the socket that waits for the answer
    Moment at;
  };

  void accept() {
    Descriptor socket{accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket) clients_.push_back({.socket = std::move(socket)});
  }

  void read(Client& client) {
    char buffer[4096];
    const ssize_t got = recv(client.socket.get(), buffer, sizeof buffer, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      client.socket.reset();
      return;
    }
    if (got > 0) client.unread.append(buffer, static_cast<std::size_t>(got));
    for (auto end = client.unread.find('\n'); end != std::string::npos;
         end = client.unread.find('\n')) {
      if (auto parcel = Parcel::parse(std::string_view(client.unread).substr(0, end))) {
        arrivals_.push_back({std::move(*parcel), client.socket.get(), Moment::clock::now()});
      } else {
        answer(client.socket.get(), '-');
      }
      client.unread.erase(0, end + 1);
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
    for (const Arrival& arrival : arrivals_) ledger_.append(arrival.parcel.line());
    ledger_.sync();
    for (const Arrival& arrival : arrivals_) answer(arrival.from, '+');
    for (const Arrival& arrival : arrivals_) {
      const bool is_new = known_.insert(arrival.parcel.id).second;
      tell({.kind = is_new ? Kind::received : Kind::duplicate,
            .id = arrival.parcel.id,
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
  std::vector<Client> clients_;
  std::vector<Arrival> arrivals_;
};

}  // namespace

void run(const ReceiverRole& role) {
  name_this_thread("outbox-receive");  // or it would be called "exe"
  StopSignal stop;
  Receiver receiver(role);
  tell({.kind = Kind::ready});
  receiver.serve(stop);
}

}  // namespace outbox::demo
