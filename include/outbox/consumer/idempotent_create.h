// Idempotent create: a request that creates something, made safe to repeat.
//
// A client that got no answer sends its request again, with the same key. The
// creation runs once, in one transaction with its events and with the record of its
// result; every repeat gets that result:
//
//   outbox::IdempotentCreate create{box.writer()};
//   const auto order = create.run(
//       {.tenant_id = "acme", .key = key_of(request), .body = request.body()},
//       [&](outbox::Transaction& tx, const outbox::NewIds& ids) {
//         tx.execute("INSERT INTO orders(id, number) VALUES (?, ?)", ids.internal_id,
//                    ids.public_id);
//         tx.write({.type = "OrderPlaced", .payload = outbox::json("{}")});
//         return ids.public_id;  // the result
//       });
//   if (order.in_progress()) return http(409);
//   return http(order.repeated() ? 200 : 201, *order.result);
#pragma once

#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "outbox/adapter/executor.h"
#include "outbox/error.h"
#include "outbox/export.h"
#include "outbox/listener.h"
#include "outbox/log.h"
#include "outbox/spi/store.h"
#include "outbox/transaction.h"
#include "outbox/writer.h"

namespace outbox {

// In code points.
inline constexpr std::size_t kMaxRequestKeyLength = 128;
inline constexpr std::size_t kMaxRequestHashLength = 64;
inline constexpr std::size_t kMaxResultLength = 255;
inline constexpr std::size_t kMaxPublicIdPrefixLength = 32;

// The key was used before, by a request with another body: a bug in the client
// (HTTP: 422).
class OUTBOX_EXPORT KeyReusedError final : public Error {
 public:
  using Error::Error;
};

struct CreateRequest {
  std::string tenant_id{};  // may be empty

  // Chosen by the client, unique for the tenant. If clients number each kind of thing
  // separately, prefix it with the kind: "order:7f3a...", and make sure that something follows.
  std::string key{};

  // Two requests with one key must be equal: pass the body (an empty one is a body, too),
  // or a hash of your own (at most 64 characters) if not every byte of it counts.
  // Exactly one of the two.
  std::optional<std::string> body{};
  std::string hash{};
};

// The ids for a creation. Both stay the same when it is retried.
struct NewIds {
  std::string internal_id{};  // a ULID: for keys, ordered by time
  std::string public_id{};    // for others to see: reveals neither time nor number
};

// How the result of a creation is recorded: as text of at most 255 characters, because it is
// a reference to the thing created, not the thing. Provided for text and
// integers; specialise it for a type of your own, such as an id:
//
//   template <>
//   struct outbox::ResultText<OrderId> {
//     static std::string to_text(const OrderId& id) { return id.str(); }
//     static OrderId from_text(std::string_view text) { return OrderId::parse(text); }
//   };
template <class T>
struct ResultText;

template <>
struct ResultText<std::string> {
  static std::string to_text(std::string text) { return text; }
  static std::string from_text(std::string_view text) { return std::string(text); }
};

template <std::integral T>
requires(!std::same_as<T, bool>) struct ResultText<T> {
  static std::string to_text(T number) { return std::to_string(number); }

  // Throws MisuseError if the request was recorded with a result of another type.
  static T from_text(std::string_view text) {
    T number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) {
      throw MisuseError("the result that was recorded for this request is \"" + std::string(text) +
                        "\", which is not an integer of the type that its work returns");
    }
    return number;
  }
};

// What became of a request, without its result.
struct CreationStatus {
  enum class State : std::uint8_t {
    created,      // by this call
    repeated,     // by an earlier one
    in_progress,  // another call is running and did not end in time
  };
  State state = State::created;
  NewIds ids{};
  std::chrono::milliseconds retry_after{0};  // in progress: when to ask again, at the latest

  bool created() const noexcept { return state == State::created; }
  bool repeated() const noexcept { return state == State::repeated; }
  bool in_progress() const noexcept { return state == State::in_progress; }
};

// What became of a request. T is what its work returns.
template <class T = std::string>
struct Creation : CreationStatus {
  std::optional<T> result{};  // nullopt while it is in progress
};

struct CreateOptions {
  // Before the public id: "ord" gives "ord_7Q2M...". Empty: nothing. At most 32 letters,
  // digits, "-" and "_".
  std::string public_id_prefix{};

  // A call that has not ended by then is declared dead, and the next one takes
  // over; if it is alive after all, its transaction is rolled back.
  std::chrono::milliseconds lease{30'000};

  // How long a second run() waits for the first one's result before it returns
  // in_progress; 0: not at all.
  std::chrono::milliseconds wait{0};

  // How long results are kept, and the purge as in InboxOptions.
  std::chrono::seconds retention{std::chrono::hours{7 * 24}};
  std::chrono::milliseconds purge_interval{std::chrono::hours{1}};
  std::size_t purge_batch = 500;

  Logger log{};  // empty: standard_error_log()
};

// Thread-safe. After fork() the child must not use it.
class OUTBOX_EXPORT IdempotentCreate {
 public:
  // The writer must outlive it. Throws MisuseError if its store has no SQL or the
  // options are invalid.
  explicit IdempotentCreate(Writer& writer, CreateOptions options = {});
  ~IdempotentCreate();  // closes
  IdempotentCreate(const IdempotentCreate&) = delete;
  IdempotentCreate& operator=(const IdempotentCreate&) = delete;

  // `work` is called as work(Transaction& tx, const NewIds& ids): it creates the thing and
  // returns a reference to it as the result: mostly the public id, or the number that the
  // database assigned (see ResultText). An exception rolls everything back and reaches the
  // caller. It must not end the transaction.
  //
  // Runs in a transaction of its own, even if this thread has another one open (on SQLite,
  // which has one writer at a time, that throws MisuseError). A claim is committed
  // first, so that other calls see at once that the request is in progress and can take it
  // over after a crash. A failure is recorded after the rollback, in a transaction of
  // its own, and the next call tries again.
  //
  // Throws KeyReusedError; MisuseError for an invalid request; RetryableError
  // if this call lost its claim to another; OutcomeUnknownError as Transaction::commit()
  // does: repeat the request to find out.
  template <class F>
  auto run(const CreateRequest& request, F work) {
    using T = ResultOf<F, Transaction&, const NewIds&>;
    return typed<T>(run_recorded(request, recorded<Work, T>(std::move(work))));
  }

  // Takes part in the caller's transaction, of the same writer (of another database: MisuseError):
  // nothing is recorded unless that commits. A second join() with the
  // same key waits until that transaction has ended, so it never sees "in progress" from
  // another such call; a run() waits, too. A thread cannot wait for itself: run(), or
  // join() in another transaction, with a key that it has joined and not committed throws
  // MisuseError. While a run() is running, join() returns in_progress at once, whatever the option
  // `wait` is: end the transaction then, because on some databases the other's commit waits for it.
  //
  // If the work throws, the transaction is rolled back and over, and the failure is
  // recorded in a transaction of its own. All other errors leave the transaction to the caller:
  // KeyReusedError, MisuseError, and RetryableError for a deadlock or, where its isolation
  // is stricter than READ COMMITTED, a change that it cannot see.
  template <class F>
  auto join(Transaction& tx, const CreateRequest& request, F work) {
    using T = ResultOf<F, Transaction&, const NewIds&>;
    return typed<T>(join_recorded(tx, request, recorded<Work, T>(std::move(work))));
  }

  // The same in a transaction of your own (see outbox::wrap() in postgres.h and the like),
  // on the writer's database. If it throws, also for an exception of the work, roll that
  // transaction back: nothing is recorded then, and the next call may create, with new ids. If you
  // commit nevertheless, the request stays in progress until its lease expires. This library does
  // not know that the thread has joined a key there: a second call with the key waits for its own
  // thread, until the database gives up.
  //
  // Throws MisuseError if no transaction is open, as far as the connection can tell.
  //
  // `work` is called as work(const NewIds& ids).
  template <class F>
  auto join(Connection& own, const CreateRequest& request, F work) {
    using T = ResultOf<F, const NewIds&>;
    return typed<T>(join_recorded(own, request, recorded<OwnWork, T>(std::move(work))));
  }

  // The same, asynchronously, by an executor (adapter/executor.h). If this call is the one that
  // creates, `work` is called with the ids, and calls `finish`, once, with its error or with
  // the result in its recorded form. `done` is called once, with the error, after which you must
  // roll the transaction back, or with what became of the request. This object must live until
  // then.
  using Finish = std::function<void(std::exception_ptr error, std::string result)>;
  using AsyncWork = std::function<void(const NewIds& ids, Finish finish)>;
  using CreateDone = std::function<void(std::exception_ptr error, Creation<> creation)>;
  void join_async(AsyncExecutor executor, const CreateRequest& request, AsyncWork work,
                  CreateDone done);

  // As Inbox::purge(), start() and close(). Requests in progress are kept until their lease
  // expires.
  std::int64_t purge(std::stop_token stop = {});
  void start();
  void close();

 private:
  class Impl;

  // With the result in its recorded form.
  using Work = std::function<std::string(Transaction& tx, const NewIds& ids)>;
  Creation<> run_recorded(const CreateRequest& request, const Work& work);
  using OwnWork = std::function<std::string(const NewIds& ids)>;
  Creation<> join_recorded(Transaction& tx, const CreateRequest& request, const Work& work);
  Creation<> join_recorded(Connection& own, const CreateRequest& request, const OwnWork& work);

  template <class F, class... Args>
  struct ResultOfWork {
    static_assert(
        std::is_invocable_v<F&, Args...>,
        "the work of IdempotentCreate takes (outbox::Transaction&, const outbox::NewIds&), or on a "
        "connection of the user's own (const outbox::NewIds&)");
    using Returned = std::remove_cvref_t<std::invoke_result_t<F&, Args...>>;
    static_assert(!std::is_void_v<Returned>,
                  "the work of IdempotentCreate returns its result: text, an integer, or a type "
                  "with an outbox::ResultText");
    using Type = std::conditional_t<std::is_convertible_v<Returned, std::string_view>, std::string,
                                    Returned>;
  };
  template <class F, class... Args>
  using ResultOf = typename ResultOfWork<F, Args...>::Type;

  template <class AnyWork, class T, class F>
  static AnyWork recorded(F work) {
    if (internal::is_null(work)) return nullptr;
    return [work = std::move(work)](auto&... args) mutable {
      return ResultText<T>::to_text(T(work(args...)));
    };
  }

  template <class T>
  static Creation<T> typed(Creation<> text) {
    if constexpr (std::same_as<T, std::string>) {
      return text;
    } else {
      Creation<T> creation{static_cast<const CreationStatus&>(text)};
      if (text.result) creation.result = ResultText<T>::from_text(*text.result);
      return creation;
    }
  }

  std::unique_ptr<Impl> impl_;
};

}  // namespace outbox
