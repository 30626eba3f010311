#include "store/mysql/pool.h"

#include <utility>

namespace outbox::mysql {

std::shared_ptr<Pool> make_pool(const EnvironmentPtr& environment, Use use, std::size_t size,
                                std::string hint, std::function<void(MYSQL*)> on_open) {
  auto open = [environment, use, on_open = std::move(on_open)] {
    auto database = std::make_unique<Database>(environment, use);
    database->ensure_connected();
    if (on_open) on_open(database->handle());
    return database;
  };
  auto make_ready = [](Database& database) {
    return !database.lost() && !database.session().in_transaction();
  };
  return std::make_shared<Pool>(PoolOptions<Database>{
      .size = size,
      .wait_timeout = environment->options.wait_timeout,
      .description = environment->description,
      .hint = std::move(hint),
      .open = std::move(open),
      .make_ready = make_ready,
      .is_healthy = [](Database& database) { return database.healthy() && !database.is_old(); }});
}

}  // namespace outbox::mysql
