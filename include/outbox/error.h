// What can go wrong, sorted by what the caller can do about it.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>

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

// Like RetryableError, and the one who throws it knows when to come back. A
// listener throws it to replace the retry policy's delay by its own.
class OUTBOX_EXPORT RetryAfterError final : public RetryableError {
 public:
  RetryAfterError(const std::string& what, std::chrono::milliseconds delay)
      : RetryableError(what), delay_(delay) {}

  std::chrono::milliseconds delay() const noexcept { return delay_; }

 private:
  std::chrono::milliseconds delay_;
};

// The other side is unavailable: a broker that is down, a host that does not answer.
// A listener throws it to say that the event is not to blame: no attempt is
// spent, and the listener is left alone until it is likely to be back.
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

// Will fail again however often it is tried; a listener throws it to send its
// event straight to the dead ones. The stores throw it for a database that
// cannot be used as it is: corrupt, read-only, of a newer schema.
class OUTBOX_EXPORT PermanentError final : public Error {
 public:
  using Error::Error;
};

}  // namespace outbox
