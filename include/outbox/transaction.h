// A database transaction in which events are written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/row.h"
#include "outbox/spi/store.h"

namespace outbox {

class Writer;

namespace internal {
class TransactionState;
}

namespace internal {
// T for one type, std::tuple<T...> for several.
template <class... T>
struct Selected {
  using Type = std::tuple<T...>;
};
template <class T>
struct Selected<T> {
  using Type = T;
};
}  // namespace internal

// Part of a transaction that can be rolled back alone; rolled back unless released.
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
// Not thread-safe, but not bound to a thread: any thread may use it, end it or destroy it
// (which rolls it back), one at a time, with its savepoints; callbacks of after_commit() run on the
// thread that commits. Only Writer::write() without a transaction, and the rule that a thread has
// one open at a time, depend on the thread: the one that began it, until it is over or detach() is
// called.
class [[nodiscard]] OUTBOX_EXPORT Transaction {
 public:
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  // Runs one statement with a value for each `?` (on PostgreSQL `?` or $1, $2, ...) and returns how
  // many rows it changed. See Parameter for what a value can be; text and bytes are not copied.
  // Throws DatabaseError if the database refuses the statement.
  template <class... Args>
  std::int64_t execute(std::string_view sql, const Args&... args) {
    const std::array<Parameter, sizeof...(Args)> parameters{Parameter(args)...};
    return connection().execute(sql, parameters);
  }

  // Runs a query and returns its rows.
  template <class... Args>
  std::vector<ResultRow> query(std::string_view sql, const Args&... args) {
    const std::array<Parameter, sizeof...(Args)> parameters{Parameter(args)...};
    return connection().query(sql, parameters);
  }

  // Runs a query for exactly one row, and returns that as a value or, for several columns, a tuple;
  // see ResultRow::get() for the types. Throws MisuseError if there are more rows, or none.
  //
  //   const auto count = tx.query_one<int>("SELECT count(*) FROM orders");
  //   const auto [id, note] = tx.query_one<int, std::string>("SELECT id, note FROM orders");
  template <class... T, class... Args>
  requires(sizeof...(T) > 0) auto query_one(std::string_view sql, const Args&... args) {
    const std::vector<ResultRow> rows = query(sql, args...);
    const ResultRow& row = only_row(rows, sizeof...(T), sql);
    return selected<T...>(row, std::index_sequence_for<T...>());
  }

  // The same, but nullopt if there is no row.
  template <class... T, class... Args>
  requires(sizeof...(T) > 0) auto query_optional(std::string_view sql, const Args&... args) {
    const std::vector<ResultRow> rows = query(sql, args...);
    const ResultRow* row = row_if_any(rows, sizeof...(T), sql);
    using Type = typename internal::Selected<T...>::Type;
    if (row == nullptr) return std::optional<Type>();
    return std::optional<Type>(selected<T...>(*row, std::index_sequence_for<T...>()));
  }

  // As Writer::write and Writer::write_all, in this transaction.
  std::string write(Draft draft);
  std::vector<std::string> write_all(std::vector<Draft> drafts);

  Savepoint savepoint();

  // Callbacks run once, in order, when the transaction (or the savepoint that was open
  // when they were registered) is known to have ended that way; all run even if one
  // throws, which is logged. After an unknown outcome none runs.
  void after_commit(std::function<void()> callback);
  void after_rollback(std::function<void()> callback);

  // Throws OutcomeUnknownError if nobody can tell whether the commit happened.
  void commit();
  void rollback();

  // Detaches it from the thread that began it, before it moves to another one: the thread may
  // begin its next one at once, and Writer::write() there no longer finds this one.
  void detach();

  // Neither committed nor rolled back yet.
  bool open() const noexcept;

  // The connection it runs on. Do not begin or end transactions on it.
  Connection& connection();

  // Its writer's store, even once it is over.
  Store& store() const;

 private:
  friend class Writer;

  // Throw MisuseError unless there is exactly, or at most, one row, of that many columns.
  static const ResultRow& only_row(const std::vector<ResultRow>& rows, std::size_t columns,
                                   std::string_view sql);
  static const ResultRow* row_if_any(const std::vector<ResultRow>& rows, std::size_t columns,
                                     std::string_view sql);

  explicit Transaction(std::unique_ptr<internal::TransactionState> state);

  template <class... T, std::size_t... I>
  static auto selected(const ResultRow& row, std::index_sequence<I...> /*columns*/) {
    return typename internal::Selected<T...>::Type(row.get<T>(I)...);
  }

  std::unique_ptr<internal::TransactionState> state_;  // null once over
};

}  // namespace outbox
