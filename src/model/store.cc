#include "outbox/spi/store.h"

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <utility>
#include <variant>

#include "base/quote.h"
#include "base/url.h"
#include "model/external_connection.h"
#include "outbox/adapter/executor.h"
#include "outbox/error.h"
#include "outbox/open.h"
#include "outbox/spi/external.h"

namespace outbox {

std::string_view to_string(Status status) {
  switch (status) {
    case Status::pending:
      return "NEW";
    case Status::done:
      return "DONE";
    case Status::retry:
      return "RETRY";
    case Status::dead:
      return "DEAD";
  }
  return "UNKNOWN";
}

std::unique_ptr<Connection> Store::wrap(ExternalHandle handle) {
  constexpr std::array<const char*, 3> kLibraries{"libpq", "libmariadb", "SQLite"};
  static_assert(kLibraries.size() == std::variant_size_v<ExternalHandle>);
  throw MisuseError(std::string("outbox::wrap() was given a connection of ") +
                    kLibraries.at(handle.index()) + ", and the store is the " + description() +
                    ": give it a connection to the store's own database");
}

std::shared_ptr<Store> Store::subscription(std::string_view name) {
  throw MisuseError("the " + description() + " has no subscription " + quote(name) +
                    ": its progress stands in its rows, so it has one receiver; several need "
                    "progress by position");
}

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

namespace {

bool has_name(const Scheme& scheme, const std::string& name) {
  return std::any_of(scheme.names.begin(), scheme.names.end(),
                     [&](const std::string& its) { return scheme_of(its + ":") == name; });
}

std::string list(std::span<const Scheme> schemes) {
  std::string text;
  for (const Scheme& scheme : schemes) {
    for (const std::string& name : scheme.names) {
      text.append(text.empty() ? "" : ", ").append(name).append(":");
    }
  }
  return text.empty() ? "none was passed to outbox::open()" : "known are " + text;
}

}  // namespace

std::shared_ptr<Store> open(const std::string& url, std::span<const Scheme> schemes) {
  const std::string name = scheme_of(url);
  if (name.empty()) {
    throw MisuseError("the store's URL does not begin with a scheme such as sqlite:; " +
                      list(schemes));
  }
  const Scheme* found = nullptr;
  for (const Scheme& scheme : schemes) {
    if (!has_name(scheme, name)) continue;
    if (found != nullptr) {
      throw MisuseError("two stores were passed to outbox::open() for " + quote(name + ":"));
    }
    found = &scheme;
  }
  if (found == nullptr) {
    throw MisuseError("no store is known for " + quote(name + ":") + "; " + list(schemes));
  }
  if (!found->open) {
    throw MisuseError("the scheme " + quote(name + ":") +
                      " was passed to outbox::open() without a function that opens a store");
  }
  return found->open(with_lower_scheme(url));
}

}  // namespace outbox
