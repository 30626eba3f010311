#include "database.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "outbox/error.h"

namespace outbox::chaos {

namespace {

using namespace std::chrono_literals;

template <class Call>
auto patiently(const Call& call) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  for (;;) {
    try {
      return call();
    } catch (const RetryableError&) {
      if (std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace

std::unique_ptr<Database> database_of(const Settings& settings, const Clock* clock) {
  switch (settings.store) {
    case StoreKind::sqlite:
      return sqlite_database(database_path(settings.directory));
    case StoreKind::postgres:
#ifdef OUTBOX_WITH_POSTGRES
      return postgres_database(settings.url, clock);
#else
      break;
#endif
    case StoreKind::mysql:
#ifdef OUTBOX_WITH_MYSQL
      return mysql_database(settings.url, clock);
#else
      break;
#endif
  }
  static_cast<void>(clock);
  throw std::invalid_argument("--store " + std::string(to_string(settings.store)) +
                              ": this program was built without it");
}

std::shared_ptr<Store> open_patiently(Database& database) {
  return patiently([&] { return database.open(); });
}

std::unique_ptr<OwnConnection> connect_patiently(Database& database, Store& store) {
  return patiently([&] { return database.connect(store); });
}

}  // namespace outbox::chaos
