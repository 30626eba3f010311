#include "model/outcome.h"

#include "outbox/error.h"

namespace outbox::internal {

Outcome outcome_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RetryAfterError& e) {
    return Outcome::failed(e.what(), e.delay());
  } catch (const UnavailableError& e) {
    return Outcome::unavailable(e.what());
  } catch (const PermanentError& e) {
    return Outcome::permanent(e.what());
  } catch (const std::exception& e) {
    return Outcome::failed(e.what());
  } catch (...) {
    return Outcome::failed("the listener threw something that is not a std::exception");
  }
}

}  // namespace outbox::internal
