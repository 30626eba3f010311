#include "outbox/adapter/executor.h"

#include <exception>
#include <utility>

#include "model/external_connection.h"
#include "outbox/error.h"
#include "outbox/spi/external.h"

namespace outbox {
namespace {

class ExecutorConnection final : public ExternalConnection {
 public:
  ExecutorConnection(std::shared_ptr<const ExecutorDialect> dialect, Executor executor)
      : dialect_(std::move(dialect)), executor_(std::move(executor)) {}

  // Only the library could tell.
  bool in_transaction() const override { return true; }

  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) override {
    return executor_(dialect_->written(sql, values)).changed;
  }

  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) override {
    ExecutorResult result = executor_(dialect_->written(sql, values));
    const auto columns =
        std::make_shared<const ResultRow::Columns>(names(std::move(result.columns), result.rows));
    std::vector<ResultRow> rows;
    rows.reserve(result.rows.size());
    for (auto& row : result.rows) rows.emplace_back(columns, std::move(row));
    return rows;
  }

  std::vector<RowRef> insert(std::span<const Event> events, const InsertOptions& options) override {
    const auto plan = dialect_->plan_insert(events, options);
    for (std::string sql = plan->next(); !sql.empty(); sql = plan->next()) {
      ExecutorResult result;
      try {
        result = executor_(sql);
      } catch (...) {
        plan->failed(std::current_exception());
        continue;
      }
      plan->answered(result);
    }
    return plan->rows();
  }

 private:
  // Those that the executor has left out have none.
  static ResultRow::Columns names(ResultRow::Columns given,
                                  const std::vector<std::vector<Value>>& rows) {
    if (!rows.empty()) given.resize(rows.front().size());
    return given;
  }

  const std::shared_ptr<const ExecutorDialect> dialect_;
  const Executor executor_;
};

}  // namespace

std::unique_ptr<Connection> executor_connection(std::shared_ptr<const ExecutorDialect> dialect,
                                                Executor executor) {
  return std::make_unique<ExecutorConnection>(std::move(dialect), std::move(executor));
}

std::unique_ptr<Connection> wrap(Executor executor, Store& store) {
  if (!executor) throw MisuseError("outbox::wrap() was given an empty executor");
  auto dialect = store.executor_dialect();
  if (!dialect) {
    throw MisuseError("outbox::wrap() was given an executor, and the store is the " +
                      store.description() +
                      ": it takes a connection of SQLite's own, and executors only on PostgreSQL, "
                      "MariaDB and MySQL");
  }
  return executor_connection(std::move(dialect), std::move(executor));
}

}  // namespace outbox
