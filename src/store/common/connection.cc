#include "store/common/connection.h"

namespace outbox {

void FirstFailure::note() {
  if (known_) return;
  try {
    throw;
  } catch (const MisuseError& error) {
    known_ = {Kind::misuse, error.what()};
  } catch (const DatabaseError& error) {
    known_ = {Kind::database, error.what(), error.details()};
  } catch (const PermanentError& error) {
    known_ = {Kind::permanent, error.what()};
  } catch (const std::exception& error) {
    known_ = {Kind::retryable, error.what()};
  } catch (...) {
    known_ = {Kind::retryable, "an unknown error"};
  }
}

void FirstFailure::throw_rolled_back(const std::string& message) const {
  if (!known_) throw RetryableError(message + "; start it over");
  const std::string why = message + " (" + known_->text + ")";
  switch (known_->kind) {
    case Kind::misuse:
      throw MisuseError(why + "; it would fail again");
    case Kind::permanent:
      throw PermanentError(why + "; it would fail again");
    case Kind::database:
      throw DatabaseError(why + "; it would fail again", known_->details);
    case Kind::retryable:
      break;
  }
  throw RetryableError(why + "; start it over");
}

}  // namespace outbox
