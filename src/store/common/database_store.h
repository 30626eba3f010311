// A store on an SQL database, and one engine's membership in it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/connection_pool.h"
#include "base/process.h"
#include "model/instance_options.h"
#include "model/shards.h"
#include "outbox/spi/store.h"
#include "store/common/database_admin.h"

namespace outbox {

// Ownership, reading and updating on a connection each, because the three may run at
// the same time; each of them from one thread at a time. Destroying it without leave()
// counts as its death. `Parts` names the classes of a store that do the work.
template <class Parts>
class ServerInstance : public Instance {
 protected:
  ServerInstance(const typename Parts::StoreConfigPtr& config, InstanceOptions options)
      : options_(named(std::move(options))),
        ownership_(config, options_, unique_owner(options_.name), generations_),
        reading_(config),
        reader_(reading_, generations_, options_.total_order),
        claims_(reading_, ownership_.owner(), options_),
        updating_(config),
        updates_(updating_, ownership_.owner(), options_.row_claims) {
    be_made_of(ownership_, reader_, claims_, updates_);
    reading_.limit_calls(kCallLimit);
    updating_.limit_calls(kCallLimit);
  }

  // For what a store asks of its connections besides.
  const InstanceOptions& options() const { return options_; }
  typename Parts::Ownership& ownership() { return ownership_; }
  typename Parts::Database& reading() { return reading_; }
  typename Parts::Database& updating() { return updating_; }

 private:
  // A read or update that takes longer has met a server that hangs.
  static constexpr std::chrono::milliseconds kCallLimit{30'000};

  // Constant after construction.
  const InstanceOptions options_;

  ShardGenerations generations_;  // from ownership_ to reader_
  typename Parts::Ownership ownership_;

  typename Parts::Database reading_;
  typename Parts::Reader reader_;
  typename Parts::Claims claims_;

  typename Parts::Database updating_;
  typename Parts::Updates updates_;
};

// What a store does with its pools. `Parts` names the classes that do the work. Thread-safe.
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

  bool has_pending() override { return admin_.has_pending(); }
  Counts counts() override { return admin_.counts(); }
  Admin& admin() override { return admin_; }

  const ConfigPtr& config() const { return config_; }

 protected:
  using PoolPtr = std::shared_ptr<ConnectionPool<typename Parts::Database>>;

  // How many searches may run at once in this process, and how many times as long as other
  // statements they may take: they may read all of a large table.
  static constexpr std::size_t kScans = 4;
  static constexpr int kScanPatience = 10;

  // `api`: the namespace of the options.
  static PoolLimits users_limits(const ConfigPtr& config, const std::string& api) {
    return {.size = config->options.connections,
            .wait_timeout = config->options.wait_timeout,
            .hint = "end transactions sooner, or raise " + api + "::Options::connections"};
  }
  static PoolLimits quick_limits(const ConfigPtr& config) {
    return {.size = 1,
            .wait_timeout = config->options.wait_timeout,
            .hint = "an operator's query is running"};
  }
  static PoolLimits scan_limits(const ConfigPtr& config) {
    return {.size = kScans,
            .wait_timeout = config->options.wait_timeout,
            .hint = "other searches of operators or purges are running"};
  }

  DatabaseStore(ConfigPtr config, PoolPtr users, PoolPtr quick, PoolPtr scans)
      : config_(std::move(config)),
        users_(std::move(users)),
        quick_(std::move(quick)),
        scans_(std::move(scans)),
        admin_(*quick_, *scans_) {}

  auto take_for_user() { return users_->take(); }
  const PoolPtr& users() const { return users_; }

 private:
  const ConfigPtr config_;
  const PoolPtr users_;

  // One more, so that operators are not shut out when the users' are all taken.
  const PoolPtr quick_;

  // For what may scan the table: it must not keep the quick questions waiting.
  const PoolPtr scans_;

  DatabaseAdmin<Parts> admin_;
};

// A store on a database server, in the SQL of `Parts::kDialect`. Thread-safe.
template <class Parts>
class ServerStore : public DatabaseStore<Parts> {
 public:
  Capabilities capabilities() const override {
    return {.shards = kShards,
            .expiring_leases = true,
            .row_claims = true,
            .dialect = Parts::kDialect,
            .many_processes = true,
            .total_order = true};
  }

  std::string side_table(std::string_view name) const override {
    return this->config()->table.qualified(name);
  }

 protected:
  using DatabaseStore<Parts>::DatabaseStore;
};

}  // namespace outbox
