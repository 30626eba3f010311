#include "store/mysql/pool.h"

#include <utility>

namespace outbox::mysql {

std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, Use use, std::size_t size,
                                std::string hint, std::chrono::milliseconds limit,
                                std::function<void(MYSQL*)> on_open) {
  auto open = [config, use, limit, on_open = std::move(on_open)] {
    auto database = std::make_unique<Database>(config, use);
    if (limit.count() > 0) database->limit_calls(limit);
    database->on_connect(on_open);
    database->ensure_connected();
    return database;
  };
  auto make_ready = [](Database& database) {
    return !database.lost() && !database.session().in_transaction();
  };
  return std::make_shared<Pool>(PoolOptions<Database>{
      .size = size,
      .wait_timeout = config->options.wait_timeout,
      .description = config->description,
      .hint = std::move(hint),
      .open = std::move(open),
      .make_ready = make_ready,
      .is_healthy = [](Database& database) { return database.healthy() && !database.is_old(); }});
}

}  // namespace outbox::mysql
