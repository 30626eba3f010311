#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/transaction.h"
#include "outbox/adapter/executor.h"
#include "outbox/error.h"
#include "outbox/spi/external.h"

namespace outbox {
namespace internal {

// A write whose statements somebody else runs. What waits for an answer keeps it alive; only one
// does at a time, so nothing of it is used by two threads at once.
class AsyncWrite final : public std::enable_shared_from_this<AsyncWrite> {
 public:
  AsyncWrite(Writer& writer, AsyncExecutor executor, std::vector<Draft> drafts, WriteDone done)
      : store_(writer.store_),
        hooks_(writer.options_.hooks),
        log_(writer.options_.log),
        executor_(std::move(executor)),
        done_(std::move(done)) {
    if (!executor_) throw MisuseError("outbox::write_async() was given an empty executor");
    if (!done_) throw MisuseError("outbox::write_async() was given an empty `done`");
    writer.check_process();
    dialect_ = store_->executor_dialect();
    if (!dialect_) {
      throw MisuseError(
          "outbox::write_async() needs a store on PostgreSQL, MariaDB or MySQL, not the " +
          store_->description());
    }
    events_ = writer.events_of(std::move(drafts));
    plan_ = dialect_->plan_insert(events_, {});
  }

  void go_on() {
    std::string sql;
    try {
      sql = plan_->next();
      if (!sql.empty()) {
        executor_(sql, [self = shared_from_this()](const ExecutorResult& result,
                                                   std::exception_ptr error) {
          self->take(result, std::move(error));
        });
        return;
      }
    } catch (...) {
      if (!done_) throw;  // thrown by `done`, which was called inside
      return fail(std::current_exception());
    }
    finish();
  }

 private:
  void take(const ExecutorResult& result, std::exception_ptr error) {
    if (!done_) return;  // it answers twice
    try {
      if (error) {
        plan_->failed(std::move(error));
      } else {
        plan_->answered(result);
      }
    } catch (...) {
      return fail(std::current_exception());
    }
    go_on();
  }

  void fail(std::exception_ptr error) { end()(std::move(error), WriteToken({}, {}, log_)); }

  void finish() {
    const std::vector<RowRef> rows = plan_->rows();
    const Clock::Steady inserted_at = store_->clock().steady();
    std::vector<Written> written;
    written.reserve(events_.size());
    for (std::size_t i = 0; i < events_.size(); ++i) {
      written.push_back({.event = std::move(events_[i]),
                         .row = rows[i],
                         .own_connection = true,
                         .inserted_at = inserted_at});
    }
    call_hooks(hooks_, log_, &WriterHook::after_write, written);
    end()(nullptr, WriteToken(std::move(written), hooks_, log_));
  }

  // To be called once.
  WriteDone end() { return std::exchange(done_, nullptr); }

  const std::shared_ptr<Store> store_;
  const std::vector<std::shared_ptr<WriterHook>> hooks_;
  const Logger log_;
  const AsyncExecutor executor_;
  WriteDone done_;  // empty once it was called
  std::shared_ptr<const ExecutorDialect> dialect_;
  std::vector<Event> events_;
  std::unique_ptr<InsertPlan> plan_;
};

}  // namespace internal

void write_async(Writer& writer, AsyncExecutor executor, std::vector<Draft> drafts,
                 WriteDone done) {
  std::make_shared<internal::AsyncWrite>(writer, std::move(executor), std::move(drafts),
                                         std::move(done))
      ->go_on();
}

}  // namespace outbox
