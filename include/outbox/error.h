// Errors, sorted by what the caller can do about them.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "outbox/export.h"

namespace outbox {

// Base of everything the library throws. Catch a kind below to act on it, or
// this one to log and give up.
class OUTBOX_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The call cannot succeed as it was made: an invalid value, a missing
// transaction, a closed object. A bug in the caller; do not retry.
class OUTBOX_EXPORT MisuseError final : public Error {
 public:
  using Error::Error;
};

// Failed now, may succeed later: a deadlock, a lost connection, a full queue.
class OUTBOX_EXPORT RetryableError : public Error {
 public:
  using Error::Error;
};

// Like RetryableError, with a delay. A listener throws it to replace the retry
// policy's delay with its own.
class OUTBOX_EXPORT RetryAfterError final : public RetryableError {
 public:
  RetryAfterError(const std::string& what, std::chrono::milliseconds delay)
      : RetryableError(what), delay_(delay) {}

  std::chrono::milliseconds delay() const noexcept { return delay_; }

 private:
  std::chrono::milliseconds delay_;
};

// The receiver is unavailable: a broker that is down, a host that does not answer.
// A listener throws it to say that the event is not to blame: no attempt is
// spent, and the listener's breaker opens until the receiver is likely to be back.
class OUTBOX_EXPORT UnavailableError final : public RetryableError {
 public:
  using RetryableError::RetryableError;
};

// The COMMIT was sent and its answer never came: the transaction may have
// happened. Do not repeat it blindly; ask the database what it holds.
class OUTBOX_EXPORT OutcomeUnknownError final : public Error {
 public:
  using Error::Error;
};

// Will fail again however often it is tried; a listener throws it to make its
// event DEAD at once. The stores throw it for a database that cannot be used as
// it is: corrupt, read-only, with a newer schema.
class OUTBOX_EXPORT PermanentError final : public Error {
 public:
  using Error::Error;
};

// The database refused a statement of your own, passed to execute() or query(), or a deferred
// constraint failed at the commit. The kinds are the same on every database:
//
//   try {
//     tx.execute("INSERT INTO customers(email) VALUES (?)", email);
//   } catch (const outbox::DatabaseError& error) {
//     if (error.kind() != outbox::DatabaseError::Kind::unique_violation) throw;
//     return Answer::email_taken;
//   }
//
// Transient failures (a deadlock, a lost connection) are a RetryableError instead. If it escapes a
// listener, that is an ordinary failed attempt. PostgreSQL refuses everything else in the
// transaction after it: to go on, set a savepoint first.
class OUTBOX_EXPORT DatabaseError final : public Error {
 public:
  enum class Kind : std::uint8_t {
    unique_violation,
    foreign_key_violation,
    not_null_violation,
    check_violation,
    invalid_data,       // a value is too long, out of range, or of another type
    syntax_error,       // the statement itself is wrong
    undefined_object,   // it names a table, a column or a function that does not exist
    permission_denied,  // the user may not do that
    other,
  };

  // What the database reported; the rest is empty or 0.
  struct Details {
    Kind kind = Kind::other;
    std::string sqlstate{};
    int native_code = 0;
    std::string constraint{};
  };

  DatabaseError(const std::string& what, Details details)
      : Error(what), details_(std::move(details)) {}

  Kind kind() const noexcept { return details_.kind; }

  // Five characters; SQLite has none.
  const std::string& sqlstate() const noexcept { return details_.sqlstate; }

  // SQLite's extended result code, MySQL's error number; PostgreSQL has none.
  int native_code() const noexcept { return details_.native_code; }

  // The name of the violated constraint or unique key; for NOT NULL, of the
  // column. SQLite names the columns of a key ("orders.id") and no foreign keys.
  const std::string& constraint() const noexcept { return details_.constraint; }

  const Details& details() const noexcept { return details_; }

 private:
  Details details_;
};

// "unique_violation" and so on.
OUTBOX_EXPORT std::string_view to_string(DatabaseError::Kind kind);

}  // namespace outbox
