// The store itself.
#pragma once

#include <memory>

#include "outbox/store.h"
#include "store/sqlite/environment.h"
#include "store/sqlite/pool.h"

namespace outbox::sqlite {

// Thread-safe.
class SqliteStore final : public Store {
 public:
  // Takes the connection over that the schema was checked on.
  SqliteStore(EnvironmentPtr environment, std::unique_ptr<Database> first);

  std::string description() const override { return environment_->description; }
  Capabilities capabilities() const override;
  const Clock& clock() const override { return *environment_->options.clock; }

  std::unique_ptr<Connection> connect() override;
  std::unique_ptr<Instance> join(InstanceOptions options) override;
  std::unique_ptr<Watch> watch(std::function<void()> on_commit) override;

  bool has_pending() override;
  Counts counts() override;
  std::optional<EventRecord> find(std::string_view event_id) override;
  bool replay(std::string_view event_id) override;
  bool discard(std::string_view event_id) override;
  std::vector<HeldAggregate> held_aggregates(std::size_t limit) override;

  const EnvironmentPtr& environment() const { return environment_; }

 private:
  const EnvironmentPtr environment_;
  const std::shared_ptr<Pool> connections_;

  // One more, so that operators are not shut out when the users' are all taken.
  const std::shared_ptr<Pool> operators_;
};

}  // namespace outbox::sqlite
