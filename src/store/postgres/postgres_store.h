// The store itself.
#pragma once

#include <memory>

#include "outbox/spi/store.h"
#include "store/postgres/notifier.h"
#include "store/postgres/pool.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// Thread-safe.
class PostgresStore final : public Store {
 public:
  explicit PostgresStore(StoreConfigPtr config);

  std::string description() const override { return config_->description; }
  Capabilities capabilities() const override;
  std::string side_table(std::string_view name) const override;
  const Clock& clock() const override { return *config_->options.clock; }

  std::unique_ptr<Connection> connect() override;
  std::unique_ptr<Instance> join(InstanceOptions options) override;
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override;

  bool has_pending() override;
  Counts counts() override;
  std::optional<EventRecord> find(std::string_view event_id) override;
  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit) override;
  std::int64_t count(const EventFilter& filter) override;
  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit) override;
  bool replay(std::string_view event_id) override;
  bool discard(std::string_view event_id) override;
  Changed replay(const EventFilter& filter, Seq after, std::size_t limit) override;
  Changed discard(const EventFilter& filter, Seq after, std::size_t limit) override;
  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) override;
  std::int64_t count_purgeable(Purgeable what, Time before) override;
  std::vector<Member> members() override;
  std::vector<HeldAggregate> held_aggregates(std::size_t limit) override;

  const StoreConfigPtr& config() const { return config_; }

 private:
  const StoreConfigPtr config_;
  const std::shared_ptr<Notifier> notifier_;  // null if nobody is to be told
  const std::shared_ptr<Pool> connections_;

  // One more, so that operators are not shut out when the users' are all taken.
  const std::shared_ptr<Pool> operators_;

  // For what may scan the table: it must not keep the quick questions waiting.
  const std::shared_ptr<Pool> scans_;
};

}  // namespace outbox::postgres
