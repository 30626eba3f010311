// A store on an SQL database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/connection_pool.h"
#include "model/store.h"
#include "outbox/spi/store.h"

namespace outbox {

// A pool of a store's connections: `open` makes them, and they say themselves whether they may be
// lent again. `hint` ends the error of those who waited in vain: what to do.
template <class StoreConfig, class Open>
auto make_database_pool(const StoreConfig& config, std::size_t size, std::string hint, Open open,
                        std::invoke_result_t<Open> first = nullptr) {
  using Database = typename std::invoke_result_t<Open>::element_type;
  return std::make_shared<ConnectionPool<Database>>(
      PoolOptions<Database>{
          .size = size,
          .wait_timeout = config.options.wait_timeout,
          .description = config.description,
          .hint = std::move(hint),
          .open = std::move(open),
          .make_ready = [](Database& database) { return database.make_ready(); },
          .is_healthy = [](Database& database) { return database.may_be_lent(); }},
      std::move(first));
}

// What a store does with its pools: operators' calls are those of `Parts::Operators` on a
// connection from one of them. `Parts` names the classes that do the work. Thread-safe.
template <class Parts>
class DatabaseStore : public Store {
 public:
  using ConfigPtr = typename Parts::StoreConfigPtr;

  std::string description() const override { return config_->description; }
  const Clock& clock() const override { return *config_->options.clock; }

  std::unique_ptr<Instance> join(InstanceOptions options) override {
    config_->check_process();
    return std::make_unique<typename Parts::Instance>(config_, checked(std::move(options)));
  }

  bool has_pending() override { return Operators(*quick_->take()).has_pending(); }
  std::optional<EventRecord> find(std::string_view event_id) override {
    return Operators(*quick_->take()).find(event_id);
  }
  bool replay(std::string_view event_id) override {
    return Operators(*quick_->take()).replay(event_id);
  }
  bool discard(std::string_view event_id) override {
    return Operators(*quick_->take()).discard(event_id);
  }
  std::vector<Member> members() override { return Operators(*quick_->take()).members(); }

  Counts counts() override { return Operators(*scans_->take()).counts(); }
  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit) override {
    return Operators(*scans_->take()).list(filter, after, limit);
  }
  std::int64_t count(const EventFilter& filter) override {
    return Operators(*scans_->take()).count(filter);
  }
  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit) override {
    return Operators(*scans_->take()).dead_groups(filter, limit);
  }
  Changed replay(const EventFilter& filter, Seq after, std::size_t limit) override {
    return Operators(*scans_->take()).replay(filter, after, limit);
  }
  Changed discard(const EventFilter& filter, Seq after, std::size_t limit) override {
    return Operators(*scans_->take()).discard(filter, after, limit);
  }
  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) override {
    return Operators(*scans_->take()).purge(what, before, after, limit, archive);
  }
  std::int64_t count_purgeable(Purgeable what, Time before) override {
    return Operators(*scans_->take()).count_purgeable(what, before);
  }
  std::vector<HeldAggregate> held_aggregates(std::size_t limit) override {
    return Operators(*scans_->take()).held_aggregates(limit);
  }

  const ConfigPtr& config() const { return config_; }

 protected:
  using PoolPtr = std::shared_ptr<ConnectionPool<typename Parts::Database>>;

  // How many searches may run at once in this process, and how many times as long as other
  // statements they may take: they may read all of a large table.
  static constexpr std::size_t kScans = 4;
  static constexpr int kScanPatience = 10;
  static constexpr const char* kQuickHint = "an operator's query is running";
  static constexpr const char* kScansHint = "other searches of operators or purges are running";

  DatabaseStore(ConfigPtr config, PoolPtr users, PoolPtr quick, PoolPtr scans)
      : config_(std::move(config)),
        users_(std::move(users)),
        quick_(std::move(quick)),
        scans_(std::move(scans)) {}

  auto take_for_user() { return users_->take(); }

 private:
  using Operators = typename Parts::Operators;

  const ConfigPtr config_;
  const PoolPtr users_;

  // One more, so that operators are not shut out when the users' are all taken.
  const PoolPtr quick_;

  // For what may scan the table: it must not keep the quick questions waiting.
  const PoolPtr scans_;
};

}  // namespace outbox
