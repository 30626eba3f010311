// Code that is written for a connection, run by an executor that answers later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/external_connection.h"
#include "outbox/adapter/executor.h"
#include "outbox/error.h"
#include "outbox/spi/external.h"

namespace outbox::internal {

// Runs `code` from the beginning each time when an answer has come, with all answers that came
// before, until it needs no more: so it must run the same statements each time, and let through
// what they throw. For a few statements. What waits for an answer keeps this alive; only one
// does at a time, so nothing of it is used by two threads at once.
template <class Result>
class Replay final : public std::enable_shared_from_this<Replay<Result>> {
 public:
  using Code = std::function<Result(Connection& on)>;
  using Done = std::function<void(std::exception_ptr error, std::optional<Result> result)>;

  Replay(AsyncExecutor executor, const Store& store, const char* caller, Code code, Done done)
      : executor_(std::move(executor)),
        dialect_(store.executor_dialect()),
        code_(std::move(code)),
        done_(std::move(done)) {
    if (!executor_ || !done_) {
      throw MisuseError(std::string(caller) + " was given an empty function");
    }
    if (!dialect_) {
      throw MisuseError(std::string(caller) +
                        " needs a store on PostgreSQL, MariaDB or MySQL, not the " +
                        store.description());
    }
  }

  void go_on() {
    std::optional<Result> result;
    std::size_t next = 0;
    std::optional<std::string> unanswered;
    // What it throws for a statement that has not been answered ends here.
    struct Unanswered {};
    const auto connection =
        executor_connection(dialect_, [&](const std::string& sql) -> ExecutorResult {
          if (next < answers_.size()) return answers_[next++];
          unanswered = sql;
          throw Unanswered{};
        });
    try {
      result = code_(*connection);
    } catch (const Unanswered&) {
      return ask(*unanswered);
    } catch (...) {
      return end(std::current_exception(), std::nullopt);
    }
    end(nullptr, std::move(result));
  }

 private:
  void ask(const std::string& sql) {
    const auto take = [self = this->shared_from_this()](ExecutorResult answer,
                                                        std::exception_ptr error) {
      if (!self->done_) return;  // it answers twice
      if (error) return self->end(std::move(error), std::nullopt);
      self->answers_.push_back(std::move(answer));
      self->go_on();
    };
    try {
      executor_(sql, take);
    } catch (...) {
      if (!done_) throw;  // thrown by `done`, which was called inside
      end(std::current_exception(), std::nullopt);
    }
  }

  void end(std::exception_ptr error, std::optional<Result> result) {
    std::exchange(done_, nullptr)(std::move(error), std::move(result));
  }

  const AsyncExecutor executor_;
  const std::shared_ptr<const ExecutorDialect> dialect_;
  const Code code_;
  Done done_;  // empty once it was called
  std::vector<ExecutorResult> answers_;
};

// Throws MisuseError at once for what cannot work; everything else goes to `done`, once.
template <class Result>
void replay(AsyncExecutor executor, const Store& store, const char* caller,
            typename Replay<Result>::Code code, typename Replay<Result>::Done done) {
  std::make_shared<Replay<Result>>(std::move(executor), store, caller, std::move(code),
                                   std::move(done))
      ->go_on();
}

}  // namespace outbox::internal
