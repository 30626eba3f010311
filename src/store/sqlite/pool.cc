#include "store/sqlite/pool.h"

#include <utility>

namespace outbox::sqlite {

std::shared_ptr<Pool> make_pool(const StoreConfigPtr& config, std::size_t size, std::string hint,
                                std::function<void(sqlite3*)> on_open,
                                std::unique_ptr<Database> first) {
  auto open = [config, on_open = std::move(on_open)] {
    auto database = std::make_unique<Database>(config);
    if (on_open) on_open(database->handle());
    return database;
  };
  auto make_ready = [](Database& database) {
    if (database.began()) database.rollback();
    return true;
  };
  return std::make_shared<Pool>(PoolOptions<Database>{.size = size,
                                                      .wait_timeout = config->options.wait_timeout,
                                                      .description = config->description,
                                                      .hint = std::move(hint),
                                                      .open = std::move(open),
                                                      .make_ready = make_ready},
                                std::move(first));
}

}  // namespace outbox::sqlite
