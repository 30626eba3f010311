// The subscriptions of a table: who is in it, and how they come and go.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/admin/admin.h"
#include "store/postgres/store_config.h"

namespace outbox::postgres {

// A subscription is served while it has rows in `_shard`, which instances lease, and keeps events
// from being purged while it has rows in `_cursor`; see docs/architecture.md, "Subscriptions". Each
// change is a transaction. Used by one thread at a time.
class Subscriptions {
 public:
  explicit Subscriptions(Database& database) : database_(database) {}

  std::vector<Subscription> list();

  // These do what Admin says.
  bool create(std::string_view name, std::optional<Begin> begin);
  void restart(std::string_view name, Begin begin);
  void rename(std::string_view from, std::string_view to);
  void drop(std::string_view name);
  std::vector<std::string> stop_lagging(Time before);

  // Throws MisuseError if there is none of that name.
  void require(std::string_view name);

  // Throws PermanentError, which says why the one of this connection is not served any more.
  [[noreturn]] void refuse_to_serve();

 private:
  void check_supported() const;
  template <class Change>
  auto change(const Change& change);
  bool hold_new(std::string_view name, std::optional<Begin> begin);
  void hold(std::string_view name);
  void open(std::string_view name, Begin begin);
  void check_not_served(std::string_view name, const std::string& what);
  [[noreturn]] void refuse_stopped(const Subscription& stopped) const;
  std::string listed(const std::vector<Subscription>& known) const;
  [[noreturn]] void refuse_unknown(std::string_view name,
                                   const std::vector<Subscription>& known) const;

  Database& database_;
};

}  // namespace outbox::postgres
