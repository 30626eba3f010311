// Statements on one connection, kept prepared.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/sql_text.h"
#include "client/postgres/settings.h"
#include "client/postgres/statement.h"
#include "outbox/spi/store.h"

namespace outbox::postgres {

class UserValues;

// One statement of several that go to the server together.
struct Call {
  const Sql& sql;
  Parameters parameters;
};

// A PGconn that somebody else owns. Prepares the library's statements on it when
// they are used. Used by one thread at a time.
class Session {
 public:
  enum class Prepare { never, from_second_use, at_once };

  Session(PGconn* connection, std::shared_ptr<const SqlContext> context, Prepare prepare);

  PGconn* handle() const { return connection_; }
  const SqlContext& context() const { return *context_; }
  bool broken() const { return given_up_ || PQstatus(connection_) != CONNECTION_OK; }
  bool in_transaction() const { return PQtransactionStatus(connection_) == PQTRANS_INTRANS; }

  // Whether somebody stopped waiting for an answer: the server should be told.
  bool given_up() const { return given_up_; }

  // Whether the server has refused to write: it is a standby, or about to be one.
  bool misplaced() const { return misplaced_; }

  // How long a call may take, to be sent and answered; then the connection is given up, and
  // RetryableError thrown. Without one, as long as the server likes.
  void limit_calls(std::chrono::milliseconds limit) { limit_ = limit; }

  // Has every call outside a transaction begin with these, in a transaction of its own.
  void set_up_each_transaction(TransactionSettings settings) { settings_ = std::move(settings); }

  // Has the next call begin a transaction first, in the same round trip.
  void begin_with_next_call() { begin_first_ = true; }

  // One statement of sql.h. Throws as throw_failure() does.
  Result run(const Sql& sql, const Parameters& parameters);
  template <class... Args>
  Result run(const Sql& sql, const Args&... args) {
    return run(sql, Parameters(args...));
  }

  // Several in one round trip; outside a transaction they are one of their own, all or
  // nothing. The server runs each as it arrives: if the rest never does, it waits for it with
  // the locks that it has by then. For reads, and for what users' transactions end with.
  std::vector<Result> run_together(std::span<const Call> calls);

  // The same in one message, which the server runs and ends when it has all of it, and not
  // before: whatever happens to us or to the network, no lock is kept. For statements that
  // take integers, booleans and texts; their results are texts.
  std::vector<Result> run_at_once(std::span<const Call> calls);
  template <class... Args>
  Result run_at_once(const Sql& sql, const Args&... args) {
    const Call calls[] = {{sql, Parameters(args...)}};
    return std::move(run_at_once(calls).front());
  }

  // SQL text without parameters, several statements if need be; what the last one returned.
  Result run_script(const std::string& text, std::string_view purpose);

  // The same for a text that may fail in any way: null if the connection is gone or
  // given up. A transaction that the next call was to begin is given up.
  ResultHandle try_script(const char* text) noexcept;

  // A statement of the user's, with ? or $1, $2, ... for the values, whose types the
  // server infers; see user_statement.h. Texts are UTF-8: throws MisuseError for one that is more
  // than ASCII if the connection has another encoding.
  std::int64_t execute(std::string_view text, std::span<const Parameter> values);
  std::vector<ResultRow> query(std::string_view text, std::span<const Parameter> values);

  // Takes the prepared statements off a connection that goes on without us.
  void forget_statements() noexcept;

 private:
  struct Kept {
    std::string text{};
    std::string name{};  // empty: not prepared yet
    int uses = 0;
  };

  // Of the user's: an INSERT that has been run, and is prepared if it comes again.
  struct UserStatement {
    std::string text;
    std::vector<Oid> types;
    std::string name{};  // empty: not prepared yet
    // It has failed since it was prepared. Its values' types are those of then; if a
    // column has changed, only preparing it again helps.
    bool doubtful = false;
  };

  void begin_call();
  bool begins_own_transaction() const;
  void note_failure(const PGresult* failure);
  std::string written(const Call& call);
  std::vector<ResultHandle> receive_all(std::string_view purpose);
  std::vector<Result> run_in_own_transaction(std::span<const Call> calls);
  // While it lives, sending does not wait for a server that reads nothing, if there is a
  // limit to calls: wait_for_input() does, with that limit.
  class Unblocked {
   public:
    explicit Unblocked(const Session& session);
    ~Unblocked();
    Unblocked(const Unblocked&) = delete;
    Unblocked& operator=(const Unblocked&) = delete;

   private:
    const Session& session_;
    const bool switched_;
  };

  [[noreturn]] void fail(const PGresult* result, std::string_view purpose) const;
  Kept& kept(const Sql& sql);
  bool prepared(Kept& statement, const Sql& sql, const Parameters& parameters);
  bool send(Kept& statement, bool by_name, const Parameters& parameters);
  ResultHandle receive(std::string_view purpose);
  void wait_for_input(std::string_view purpose);
  Result checked(ResultHandle result, std::string_view purpose);
  template <class Send>
  std::vector<Result> pipeline(std::span<const std::string_view> purposes, const Send& send);
  std::string prepare(const std::string& text, int count, const Oid* types,
                      std::string_view purpose);
  bool may_stay_prepared(std::string_view text, const UserValues& values) const;
  UserStatement* prepared(std::string_view text, const UserValues& values,
                          std::string_view purpose);
  void remember(std::string text, std::vector<Oid> types);
  void deallocate(UserStatement& statement, std::string_view purpose);
  template <class Send>
  Result send_user_statement(std::string_view purpose, const Send& send);
  void check_encoding(std::span<const Parameter> values) const;
  bool backslashes_escape() const;
  Result run_user_statement(std::string_view text, std::span<const Parameter> values);

  PGconn* const connection_;
  const std::shared_ptr<const SqlContext> context_;
  Prepare prepare_;
  const std::string prefix_;  // of the names of its statements
  std::optional<std::chrono::milliseconds> limit_;
  std::chrono::steady_clock::time_point deadline_{};
  Whose whose_ = Whose::ours;
  bool given_up_ = false;
  bool misplaced_ = false;
  TransactionSettings settings_;
  bool begin_first_ = false;
  int named_ = 0;
  std::unordered_map<const Sql*, Kept> kept_;
  std::list<UserStatement> recent_;  // last used first
};

}  // namespace outbox::postgres
