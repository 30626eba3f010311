#include "store/postgres/pool.h"

#include <utility>

namespace outbox::postgres {
namespace {

// More milliseconds than the server can count do not differ from none.
constexpr std::chrono::hours kAsGoodAsNone{24};

}  // namespace

std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, Use use, std::size_t size,
                                std::string hint, std::chrono::milliseconds limit,
                                std::function<void(PGconn*)> on_open) {
  auto open = [config, use, limit, on_open = std::move(on_open)] {
    auto database = std::make_unique<Database>(config, use);
    if (limit.count() > 0 && limit < kAsGoodAsNone) database->limit_calls(limit);
    database->on_connect(on_open);
    database->ensure_connected();
    return database;
  };
  auto make_ready = [](Database& database) {
    return !database.lost() && !database.outdated() &&
           PQtransactionStatus(database.handle()) == PQTRANS_IDLE;
  };
  return std::make_shared<Pool>(
      PoolOptions<Database>{.size = size,
                            .wait_timeout = config->options.wait_timeout,
                            .description = config->description,
                            .hint = std::move(hint),
                            .open = std::move(open),
                            .make_ready = make_ready,
                            .is_healthy = [](Database& database) { return database.healthy(); }});
}

}  // namespace outbox::postgres
