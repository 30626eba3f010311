// Money moves between accounts while the process that moves it is killed again and
// again; in the end not a cent is lost or made.
//
//   example_bank_transfer [folder]      default: a temporary folder
//
// A transfer debits, credits and completes in one transaction, with its three events. One
// that fails is rolled back, and says so in a transaction of its own. Every transfer is
// a request with a key: a client that got no answer asks again. A second database keeps
// the books from the events alone. After twelve kills the two are compared.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>

#include "outbox/consumer/idempotent_create.h"
#include "outbox/consumer/inbox.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "outbox/typed/domain_event.h"
#include "outbox/typed/publisher.h"

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// One string a line, because several workers print side by side.
void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw std::runtime_error(otherwise);
}

constexpr int kAccounts = 10;
constexpr int kTransfers = 400;
constexpr int kKills = 12;
constexpr std::int64_t kOpeningCents = 10'000;

// --- events ---

// Of one account, so that its debits and credits are delivered in their order.
struct AccountDebited {
  std::string account;
  std::string transfer;
  std::int64_t cents = 0;
};
constexpr auto describe(outbox::Type<AccountDebited>) {
  return outbox::event<AccountDebited>("AccountDebited")
      .aggregate("Account", &AccountDebited::account)
      .field("account", &AccountDebited::account)
      .field("transfer", &AccountDebited::transfer)
      .field("cents", &AccountDebited::cents);
}

struct AccountCredited {
  std::string account;
  std::string transfer;
  std::int64_t cents = 0;
};
constexpr auto describe(outbox::Type<AccountCredited>) {
  return outbox::event<AccountCredited>("AccountCredited")
      .aggregate("Account", &AccountCredited::account)
      .field("account", &AccountCredited::account)
      .field("transfer", &AccountCredited::transfer)
      .field("cents", &AccountCredited::cents);
}

struct TransferCompleted {
  std::string transfer;
};
constexpr auto describe(outbox::Type<TransferCompleted>) {
  return outbox::event<TransferCompleted>("TransferCompleted")
      .aggregate("Transfer", &TransferCompleted::transfer)
      .field("transfer", &TransferCompleted::transfer);
}

struct TransferFailed {
  std::string transfer;
  std::string reason;
};
constexpr auto describe(outbox::Type<TransferFailed>) {
  return outbox::event<TransferFailed>("TransferFailed")
      .aggregate("Transfer", &TransferFailed::transfer)
      .field("transfer", &TransferFailed::transfer)
      .field("reason", &TransferFailed::reason);
}

// --- the bank ---

struct Transfer {
  std::string id;
  std::string from;
  std::string to;
  std::int64_t cents = 0;
};

// The same list in every process: what the clients want.
Transfer transfer(int number) {
  std::minstd_rand random(static_cast<unsigned>(number));
  const auto from = random() % kAccounts;
  const auto to = (from + 1 + random() % (kAccounts - 1)) % kAccounts;
  return {.id = "transfer-" + std::to_string(number),
          .from = "account-" + std::to_string(from),
          .to = "account-" + std::to_string(to),
          .cents = static_cast<std::int64_t>(1 + random() % 4'000)};
}

std::int64_t number(outbox::Store& store, const std::string& sql) {
  return store.connect()->query(sql, {}).at(0).get<std::int64_t>(0);
}

class InsufficientFunds final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Bank {
 public:
  Bank(outbox::Writer& writer, outbox::DomainEventPublisher& publisher)
      : writer_(writer),
        publisher_(publisher),
        // A call cut off by a kill is taken over soon: nobody waits for it here.
        create_(writer, {.lease = 50ms, .wait = 10s}) {}

  void carry_out(const Transfer& wish) {
    try {
      create_.run({.key = wish.id, .body = wish.from + ">" + wish.to + std::to_string(wish.cents)},
                  [&](outbox::Transaction& tx, const outbox::NewIds&) { return move(tx, wish); });
    } catch (const InsufficientFunds& error) {
      // What was written in the transfer's transaction is gone with it.
      auto tx = writer_.begin();
      if (tx.execute("INSERT OR IGNORE INTO failures(transfer) VALUES (?)", wish.id) == 1) {
        publisher_.publish(tx, TransferFailed{.transfer = wish.id, .reason = error.what()});
      }
      tx.commit();
    }
  }

 private:
  std::string move(outbox::Transaction& tx, const Transfer& wish) {
    if (tx.execute("UPDATE accounts SET cents = cents - ?1 WHERE id = ?2 AND cents >= ?1",
                   wish.cents, wish.from) == 0) {
      throw InsufficientFunds(wish.from + " has less than " + std::to_string(wish.cents));
    }
    publisher_.publish(
        tx, AccountDebited{.account = wish.from, .transfer = wish.id, .cents = wish.cents});
    tx.execute("UPDATE accounts SET cents = cents + ? WHERE id = ?", wish.cents, wish.to);
    publisher_.publish(
        tx, AccountCredited{.account = wish.to, .transfer = wish.id, .cents = wish.cents});
    publisher_.publish(tx, TransferCompleted{.transfer = wish.id});
    return wish.id;
  }

  outbox::Writer& writer_;
  outbox::DomainEventPublisher& publisher_;
  outbox::IdempotentCreate create_;
};

// --- the processes ---

std::string bank_file(const fs::path& folder) { return (folder / "bank.db").string(); }
std::string books_file(const fs::path& folder) { return (folder / "books.db").string(); }

void open_accounts(const fs::path& folder) {
  const auto bank = outbox::sqlite::open(bank_file(folder));
  const auto books = outbox::sqlite::open(books_file(folder));
  const auto at_bank = bank->connect();
  at_bank->execute("CREATE TABLE accounts(id TEXT PRIMARY KEY, cents INTEGER NOT NULL)", {});
  at_bank->execute("CREATE TABLE failures(transfer TEXT PRIMARY KEY)", {});
  books->connect()->execute(
      "CREATE TABLE entries(account TEXT NOT NULL, transfer TEXT NOT NULL, cents INTEGER NOT NULL)",
      {});
  for (int i = 0; i < kAccounts; ++i) {
    const std::string account = "account-" + std::to_string(i);
    const std::vector<outbox::Parameter> values{account, kOpeningCents};
    at_bank->execute("INSERT INTO accounts(id, cents) VALUES (?, ?)", values);
  }
}

// Carries out all transfers from the first to the last, as if no answer had ever come.
void work(const fs::path& folder) {
  const auto bank = outbox::sqlite::open(bank_file(folder));
  const auto books = outbox::sqlite::open(books_file(folder));
  outbox::Inbox inbox{books};
  outbox::Writer keeper{books};
  const auto enter = [&](const outbox::Event& event, const std::string& account,
                         const std::string& id, std::int64_t cents) {
    auto tx = keeper.begin();
    inbox.once(tx, "books", event.id(), [&] {
      tx.execute("INSERT INTO entries(account, transfer, cents) VALUES (?, ?, ?)", account, id,
                 cents);
    });
    tx.commit();
  };
  outbox::Listeners on;
  on.on<AccountDebited>([&](const AccountDebited& debited, const outbox::Event& event) {
    enter(event, debited.account, debited.transfer, -debited.cents);
  });
  on.on<AccountCredited>([&](const AccountCredited& credited, const outbox::Event& event) {
    enter(event, credited.account, credited.transfer, credited.cents);
  });
  on.on<TransferCompleted>([](const TransferCompleted&) {});
  on.on<TransferFailed>([](const TransferFailed&) {});

  // The kills come from outside: no event is to blame for them.
  outbox::Outbox box{bank, on, {.max_solo_crashes = 1000}};
  box.start();
  const auto publisher = outbox::transactional_publisher(box.writer());
  Bank teller{box.writer(), *publisher};
  for (int i = 0; i < kTransfers; ++i) teller.carry_out(transfer(i));
  expect(box.wait_idle(30s), "an event was not delivered in time");
}

// This program again, as a worker.
pid_t start_worker(const fs::path& folder) {
  const pid_t child = fork();
  expect(child >= 0, "fork() failed");
  if (child == 0) {
    const std::string folder_text = folder.string();
    execl("/proc/self/exe", "example_bank_transfer", "--work", folder_text.c_str(), nullptr);
    _exit(127);
  }
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  expect(waitpid(child, &status, 0) == child, "waitpid() failed");
  return status;
}

void reconcile(const fs::path& folder) {
  const auto bank = outbox::sqlite::open(bank_file(folder));
  const auto books = outbox::sqlite::open(books_file(folder));
  const std::int64_t completed =
      number(*bank, "SELECT count(*) FROM outbox_event WHERE event_type = 'TransferCompleted'");
  const std::int64_t failed = number(*bank, "SELECT count(*) FROM failures");

  expect(number(*bank, "SELECT sum(cents) FROM accounts") == kAccounts * kOpeningCents,
         "the accounts hold more or less than was paid in");
  // Money that is moved twice is neither lost nor made: it is the wrong account's.
  expect(number(*bank,
                "SELECT count(DISTINCT aggregate_id) FROM outbox_event"
                " WHERE event_type = 'TransferCompleted'") == completed,
         "a transfer was carried out twice");
  for (int i = 0; i < kTransfers; ++i) {
    const Transfer wish = transfer(i);
    const std::string entries = "FROM entries WHERE transfer = '" + wish.id + "'";
    if (number(*books, "SELECT count(*) " + entries) == 0) continue;
    const std::string cents = std::to_string(wish.cents);
    expect(number(*books, "SELECT count(*) " + entries + " AND account = '" + wish.from +
                              "' AND cents = -" + cents) == 1 &&
               number(*books, "SELECT count(*) " + entries + " AND account = '" + wish.to +
                                  "' AND cents = " + cents) == 1,
           "the books have other entries for " + wish.id + " than its debit and its credit");
  }
  expect(number(*books, "SELECT sum(cents) FROM entries") == 0, "the books do not balance");
  expect(number(*books, "SELECT count(*) FROM entries") == 2 * completed,
         "the books have not one debit and one credit for each transfer");
  for (int i = 0; i < kAccounts; ++i) {
    const std::string id = "'account-" + std::to_string(i) + "'";
    const auto held = number(*bank, "SELECT cents FROM accounts WHERE id = " + id);
    const auto booked =
        number(*books, "SELECT coalesce(sum(cents), 0) FROM entries WHERE account = " + id);
    expect(held == kOpeningCents + booked, "the books are wrong about " + id);
  }
  expect(number(*bank,
                "SELECT count(DISTINCT aggregate_id) FROM outbox_event"
                " WHERE aggregate_type = 'Transfer'") == kTransfers,
         "a transfer came to no end");
  say(std::to_string(completed) + " transfers completed, " + std::to_string(failed) +
      " failed at least once; not a cent lost or made");
}

void run(const fs::path& folder) {
  open_accounts(folder);
  const auto seed = std::random_device{}();
  say("killing " + std::to_string(kKills) + " workers, seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < kKills; ++i) {
    const pid_t worker = start_worker(folder);
    // Not to wait for anything: the kill is to come at any moment.
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 150));
    kill(worker, SIGKILL);
    wait_for(worker);
  }
  const int status = wait_for(start_worker(folder));
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the last worker failed");
  reconcile(folder);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--work") {
    work(argv[2]);
    return EXIT_SUCCESS;
  }
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.path());
  return EXIT_SUCCESS;
}
