#include "cli/demo/shop.h"

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp is POSIX
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "base/thread.h"
#include "harness/ledger.h"
#include "harness/receiver.h"
#include "outbox/error.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"

namespace outbox::demo {
namespace {

namespace fs = std::filesystem;
using Kind = Report::Kind;
using namespace std::chrono_literals;
using harness::Message;
using harness::Signals;
using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr const char* kAggregate = "Customer";
constexpr const char* kEvent = "OrderPlaced";

// The demo writes and judges a whole shop; it must never do so in a database
// that somebody else uses.
void check_new_database(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    throw PermanentError(path.string() + " is a folder: --database takes the path of a file");
  }
  if (fs::exists(fs::symlink_status(path, error))) {
    throw PermanentError(path.string() +
                         " exists already, and the demo starts with a new database: remove it or "
                         "give another path with --database");
  }
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error)) {
    throw PermanentError("cannot create " + path.string() + ": there is no folder " +
                         parent.string());
  }
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    const int reason = errno;
    throw PermanentError("cannot create " + path.string() + ": the folder " + parent.string() +
                         " is not writable for this user: " + std::strerror(reason));
  }
}

constexpr const char* kCreateOrders = R"sql(
  CREATE TABLE IF NOT EXISTS orders (
    customer TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    cents    INTEGER NOT NULL,
    event_id TEXT    NOT NULL,
    PRIMARY KEY (customer, number)
  ) WITHOUT ROWID)sql";

constexpr const char* kNextNumber =
    "SELECT COALESCE(MAX(number), 0) + 1 FROM orders WHERE customer = ?";

constexpr const char* kInsertOrder =
    "INSERT INTO orders (customer, number, cents, event_id) VALUES (?, ?, ?, ?)";

constexpr const char* kAllOrders = "SELECT event_id, customer, number FROM orders";

constexpr const char* kPendingEvents =
    "SELECT event_id FROM outbox_event WHERE hold IS NOT NULL AND status IN (0, 2)";

std::vector<ResultRow> read(Store& store, const char* sql) {
  const auto connection = store.connect();
  connection->begin();
  auto rows = connection->query(sql, {});
  connection->rollback();
  return rows;
}

// --- What they tell ---

constexpr std::array<std::string_view, 6> kNames{"@ready",    "@committed", "@rolled_back",
                                                 "@received", "@duplicate", "@log"};

// Cuts the first word and the space after it off the line.
std::string_view next_word(std::string_view& line) {
  const auto end = line.find(' ');
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return word;
}

std::optional<std::int64_t> to_number(std::string_view word) {
  std::int64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

void tell(const Report& report) { write_out(report.line() + '\n'); }

Logger telling_log() {
  return [](const LogRecord& record) {
    if (record.level >= LogLevel::info) tell({.text = std::string(record.message)});
  };
}

// --- The writer ---

constexpr int kCustomers = 20;
constexpr int kOneInSoManyRolledBack = 10;

// How long to leave a database alone that does not let us write.
constexpr std::chrono::milliseconds kPause{200};

// Inserts the customer's next order and its event in the transaction. Whether it happened is up to
// the transaction. Returns the event's id.
std::string place_order(Transaction& tx, const std::string& customer, int cents) {
  const int number = tx.query_one<int>(kNextNumber, customer);
  std::string id = tx.write({.type = kEvent,
                             .aggregate_type = kAggregate,
                             .aggregate_id = customer,
                             .payload = json("{\"number\":" + std::to_string(number) +
                                             ",\"cents\":" + std::to_string(cents) + "}"),
                             .headers = {{"number", std::to_string(number)}}});
  tx.execute(kInsertOrder, customer, number, cents, id);
  return id;
}

class Shop {
 public:
  explicit Shop(const RunOptions& options)
      : writer_(open_shop(options.directory, telling_log())),
        rolled_back_(options.directory.rollbacks()),
        random_(options.seed) {}

  void sell() {
    const std::string customer = "customer-" + std::to_string(pick(1, kCustomers));
    const int cents = pick(100, 20'000);
    auto tx = writer_.begin();
    const std::string id = place_order(tx, customer, cents);
    if (pick(1, kOneInSoManyRolledBack) == 1) {
      // Written down first: a rollback that nobody remembers could not be
      // told from an order that was lost.
      rolled_back_.append(id);
      rolled_back_.sync();
      tx.rollback();
      tell({.kind = Kind::rolled_back, .id = id});
    } else {
      tx.commit();
      tell({.kind = Kind::committed, .id = id, .at = steady_clock::now()});
    }
  }

 private:
  int pick(int least, int most) { return std::uniform_int_distribution<int>{least, most}(random_); }

  Writer writer_;
  harness::Ledger rolled_back_;
  std::mt19937_64 random_;
};

void sell_orders(const RunOptions& options) {
  Signals stop;
  Shop shop(options);
  tell({.kind = Kind::ready});
  const microseconds step{1'000'000 / options.rate};
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
    if (stop.wait_for(std::chrono::duration_cast<microseconds>(
            std::max(next - steady_clock::now(), steady_clock::duration::zero())))) {
      return;
    }
  }
}

// --- The dispatcher ---

Message message_of(const Event& event) {
  const auto number = to_number(event.header("number").value_or(""));
  if (!number) throw PermanentError("no number in the headers of event " + event.id());
  return {.id = event.id(), .aggregate = event.aggregate_id(), .number = *number};
}

// Hands events to the receiver, and says when it becomes unavailable and when it is back.
class ToReceiver final : public Listener {
 public:
  explicit ToReceiver(const RunDirectory& directory) : client_(directory.socket(), 1s) {}

  Outcome on_event(const Event& event, const Delivery&) override {
    try {
      client_.deliver(message_of(event));
    } catch (const UnavailableError& error) {
      if (!unavailable_.exchange(true)) tell({.text = std::string(error.what()) + "; events wait"});
      throw;
    }
    if (unavailable_.exchange(false)) tell({.text = "the receiver is back"});
    return Outcome::done();
  }

 private:
  harness::Client client_;
  std::atomic<bool> unavailable_{false};
};

void deliver_events(const RunOptions& options) {
  Signals stop;
  Listeners on;
  on.add(kAggregate, kEvent,
         std::static_pointer_cast<Listener>(std::make_shared<ToReceiver>(options.directory)));
  Outbox box{open_shop(options.directory, telling_log()),
             std::move(on),
             {// Once the receiver is healed, the events should be seen to flow at once.
              .breaker = {.max_pause = 500ms},
              // The kills come from outside: no event is to blame for them.
              .max_solo_crashes = 1000,
              .name = "demo",
              .log = telling_log()}};
  box.start();
  tell({.kind = Kind::ready});
  stop.wait();
  box.close();
}

// --- The receiver ---

void write_down_arrivals(const RunOptions& options) {
  const Signals stop;
  const std::string receipts = options.directory.receipts();
  std::unordered_set<std::string> known;
  for (const Message& message : harness::read_messages(receipts)) known.insert(message.id);
  harness::Receiver receiver(
      {.ledger = receipts,
       .socket = options.directory.socket(),
       .sync = true,
       .forget_one = options.forget_one && known.empty(),  // else an earlier process has done so
       .on_message = [&known](const Message& message, Moment at) {
         const bool is_new = known.insert(message.id).second;
         tell({.kind = is_new ? Kind::received : Kind::duplicate, .id = message.id, .at = at});
       }});
  tell({.kind = Kind::ready});
  receiver.serve(stop);
}

}  // namespace

RunDirectory make_run_directory(const std::string& database) {
  RunDirectory directory;
  if (!database.empty()) check_new_database(database);

  const char* base = std::getenv("TMPDIR");
  const fs::path parent = base != nullptr && *base != '\0' ? base : "/tmp";
  std::string folder = (fs::absolute(parent) / "outbox-demo-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    const int reason = errno;
    throw PermanentError("cannot make a temporary folder in " + parent.string() + ": " +
                         std::strerror(reason) + "; set TMPDIR to a folder that is writable");
  }
  directory.folder = folder;
  directory.database = database.empty() ? directory.folder / "shop.db" : fs::absolute(database);
  try {
    harness::check_socket_path(directory.socket());
  } catch (const PermanentError& error) {
    remove_run_directory(directory);
    throw PermanentError(std::string(error.what()) +
                         "; set TMPDIR to a folder with a shorter path");
  }
  return directory;
}

void remove_run_directory(const RunDirectory& directory) noexcept {
  std::error_code ignored;
  fs::remove_all(directory.folder, ignored);
}

std::shared_ptr<Store> open_shop(const RunDirectory& directory, Logger log) {
  auto store = sqlite::open(directory.database.string(), {.log = std::move(log)});
  const auto connection = store->connect();
  connection->begin();
  connection->execute(kCreateOrders, {});
  connection->commit();
  return store;
}

std::vector<harness::Committed> orders(Store& store) {
  std::vector<harness::Committed> result;
  for (const ResultRow& row : read(store, kAllOrders)) {
    result.push_back({.id = row.get<std::string>("event_id"),
                      .aggregate = row.get<std::string>("customer"),
                      .number = row.get<std::int64_t>("number")});
  }
  return result;
}

std::unordered_set<std::string> pending_events(Store& store) {
  std::unordered_set<std::string> result;
  for (const ResultRow& row : read(store, kPendingEvents)) result.insert(row.get<std::string>(0));
  return result;
}

void run(Role role, const RunOptions& options) {
  // Or it would be called "exe".
  switch (role) {
    case Role::writer:
      name_this_thread("outbox-write");
      return sell_orders(options);
    case Role::dispatcher:
      name_this_thread("outbox-dispatch");
      return deliver_events(options);
    case Role::receiver:
      name_this_thread("outbox-receive");
      return write_down_arrivals(options);
  }
}

std::string Report::line() const {
  const std::string name(kNames.at(static_cast<std::size_t>(kind)));
  if (kind == Kind::log) return name + ' ' + text;
  const auto since = std::chrono::duration_cast<microseconds>(at.time_since_epoch());
  return name + ' ' + id + ' ' + std::to_string(since.count());
}

Report Report::parse(std::string_view line) {
  std::string_view rest = line;
  const auto name = std::find(kNames.begin(), kNames.end(), next_word(rest));
  const auto kind = static_cast<Kind>(name - kNames.begin());
  if (kind == Kind::log) return {.text = std::string(rest)};
  const std::string id(next_word(rest));
  const auto since = to_number(rest);
  if (name == kNames.end() || !since) return {.text = std::string(line)};
  return {.kind = kind, .id = id, .at = Moment{microseconds{*since}}};
}

void write_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0) {
      if (errno != EINTR) return;  // nobody reads any more; the run goes on
      continue;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace outbox::demo
