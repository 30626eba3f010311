// Implemented by stores that take part in transactions of other client libraries, by executors
// (adapter/executor.h).
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/adapter/executor.h"
#include "outbox/event.h"
#include "outbox/export.h"
#include "outbox/row.h"
#include "outbox/spi/store.h"

namespace outbox {

// An INSERT of events as a sequence of statements, each run when the one before has returned. Used
// by one thread at a time.
class OUTBOX_EXPORT InsertPlan {
 public:
  virtual ~InsertPlan() = default;

  // The next statement; empty when all is done.
  virtual std::string next() = 0;

  // How the statement ended. Both throw if that ends the plan; cleaning up has been
  // done by then.
  virtual void answered(const ExecutorResult& result) = 0;
  virtual void failed(std::exception_ptr error) = 0;

  // The addresses of the rows, in order, when all is done.
  virtual std::vector<RowRef> rows() = 0;
};

// Makes the statements that executors run. May outlive its store. Thread-safe.
class OUTBOX_EXPORT ExecutorDialect {
 public:
  virtual ~ExecutorDialect() = default;

  // The events must outlive the plan.
  virtual std::unique_ptr<InsertPlan> plan_insert(std::span<const Event> events,
                                                  const InsertOptions& options) const = 0;

  // A statement with its values in place of its placeholders. Throws MisuseError if their
  // numbers differ.
  virtual std::string written(std::string_view sql, std::span<const Parameter> values) const = 0;
};

}  // namespace outbox
