// What operators ask of a store on an SQL database, and do to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/connection_pool.h"
#include "outbox/admin/admin.h"

namespace outbox {

// Each call is one of `Parts::Operators`, on a connection from the pool for quick questions, or
// from the one for what may scan the table. Thread-safe.
template <class Parts>
class DatabaseAdmin final : public Admin {
 public:
  using Pool = ConnectionPool<typename Parts::Database>;

  // The pools must outlive it.
  DatabaseAdmin(Pool& quick, Pool& scans) : quick_(quick), scans_(scans) {}

  std::optional<EventRecord> find(std::string_view event_id) override {
    return Operators(*quick_.take()).find(event_id);
  }
  bool replay(std::string_view event_id) override {
    return Operators(*quick_.take()).replay(event_id);
  }
  bool discard(std::string_view event_id) override {
    return Operators(*quick_.take()).discard(event_id);
  }
  std::vector<Member> members() override { return Operators(*quick_.take()).members(); }

  std::vector<EventRecord> list(const EventFilter& filter, Seq after, std::size_t limit) override {
    return Operators(*scans_.take()).list(filter, after, limit);
  }
  std::int64_t count(const EventFilter& filter) override {
    return Operators(*scans_.take()).count(filter);
  }
  std::vector<DeadGroup> dead_groups(const EventFilter& filter, std::size_t limit) override {
    return Operators(*scans_.take()).dead_groups(filter, limit);
  }
  std::vector<HeldAggregate> held_aggregates(std::size_t limit) override {
    return Operators(*scans_.take()).held_aggregates(limit);
  }
  Changed replay(const EventFilter& filter, Seq after, std::size_t limit) override {
    return Operators(*scans_.take()).replay(filter, after, limit);
  }
  Changed discard(const EventFilter& filter, Seq after, std::size_t limit) override {
    return Operators(*scans_.take()).discard(filter, after, limit);
  }
  Changed purge(Purgeable what, Time before, Seq after, std::size_t limit, bool archive) override {
    return Operators(*scans_.take()).purge(what, before, after, limit, archive);
  }
  std::int64_t count_purgeable(Purgeable what, Time before) override {
    return Operators(*scans_.take()).count_purgeable(what, before);
  }

 private:
  using Operators = typename Parts::Operators;

  Pool& quick_;
  Pool& scans_;
};

}  // namespace outbox
