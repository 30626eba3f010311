// A database transaction that events are written in.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/spi/store.h"

namespace outbox {

class Writer;

namespace internal {
class TransactionState;
}

// Whatever a statement can be given: numbers, text, Blob, nullptr, optionals.
template <class T>
Value to_value(T&& value);

// Part of a transaction that can be undone alone; rolled back unless released.
class [[nodiscard]] OUTBOX_EXPORT Savepoint {
 public:
  Savepoint(Savepoint&& other) noexcept;
  Savepoint& operator=(Savepoint&&) = delete;
  ~Savepoint();

  void release();
  void rollback();

 private:
  friend class Transaction;
  explicit Savepoint(internal::TransactionState& state);

  internal::TransactionState* state_;  // null once over
  std::size_t depth_;
};

// An open transaction of a Writer; rolled back unless committed.
//
//   auto tx = writer.begin();
//   tx.execute("INSERT INTO orders(id, cents) VALUES (?, ?)", 42, 1999);
//   tx.write({.type = "OrderPlaced", .payload = outbox::json("{}")});
//   tx.commit();
//
// Bound to the thread that began it (another one may destroy it, which rolls it
// back); not thread-safe.
class [[nodiscard]] OUTBOX_EXPORT Transaction {
 public:
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  template <class... Args>
  std::int64_t execute(std::string_view sql, Args&&... args) {
    const std::vector<Value> values{to_value(std::forward<Args>(args))...};
    return connection().execute(sql, values);
  }

  template <class... Args>
  std::vector<ResultRow> query(std::string_view sql, Args&&... args) {
    const std::vector<Value> values{to_value(std::forward<Args>(args))...};
    return connection().query(sql, values);
  }

  // As Writer::write and Writer::write_all, in this transaction.
  std::string write(Draft draft);
  std::vector<std::string> write_all(std::vector<Draft> drafts);

  Savepoint savepoint();

  // Run once, in order, after the transaction (or the savepoint that was open
  // when they were registered) has certainly ended so; all run even when one
  // throws, which is logged. After an unknown outcome neither runs.
  void after_commit(std::function<void()> callback);
  void after_rollback(std::function<void()> callback);

  // Throws OutcomeUnknownError if nobody can tell whether it happened.
  void commit();
  void rollback();

  // Neither committed nor rolled back yet.
  bool open() const noexcept;

  // The connection it runs on. Do not begin or end transactions on it.
  Connection& connection();

  // Its writer's, also once it is over.
  Store& store() const;

 private:
  friend class Writer;
  explicit Transaction(std::unique_ptr<internal::TransactionState> state);

  std::unique_ptr<internal::TransactionState> state_;  // null once over
};

// --- implementation of the templates ---

namespace internal {
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
}  // namespace internal

template <class T>
Value to_value(T&& value) {
  using U = std::remove_cvref_t<T>;
  if constexpr (std::same_as<U, Value>) {
    return std::forward<T>(value);
  } else if constexpr (internal::IsOptional<U>::value) {
    return value ? to_value(*std::forward<T>(value)) : Value{nullptr};
  } else if constexpr (std::is_null_pointer_v<U>) {
    return nullptr;
  } else if constexpr (std::is_integral_v<U>) {
    static_assert(sizeof(U) < 8 || std::is_signed_v<U>,
                  "databases have no 64-bit unsigned integers: cast to std::int64_t");
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::is_floating_point_v<U>) {
    return static_cast<double>(value);
  } else if constexpr (std::same_as<U, Blob>) {
    return std::forward<T>(value);
  } else {
    static_assert(std::is_constructible_v<std::string, T>,
                  "a statement takes numbers, text, outbox::Blob, nullptr, or optionals of them");
    return std::string(std::forward<T>(value));
  }
}

}  // namespace outbox
