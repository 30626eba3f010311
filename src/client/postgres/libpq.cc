#include "client/postgres/libpq.h"

#include <algorithm>
#include <array>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

using Kind = FailureKind;

struct ErrorClass {
  std::string_view state;  // or its first two characters, for the whole class
  Kind kind;
  const char* hint;
  bool ours_only = false;  // the hint is about the library's tables
};

constexpr std::string_view kUniqueViolation = "23505";
constexpr std::string_view kWrongMessage = "08P01";

// The first that fits counts. Errors that are not listed are permanent.
constexpr ErrorClass kMeanings[] = {
    {kUniqueViolation, Kind::misuse, "an id of your own must be unique", true},
    {"25006", Kind::retryable, "the server takes no writes: it is a standby, or is failing over"},
    {"25P02", Kind::misuse, "an earlier statement failed: roll back, or use savepoints"},
    {"25P03", Kind::retryable, "the transaction was idle for too long; start it over"},
    {"26000", Kind::retryable,
     "the prepared statements are gone (DISCARD ALL, or a pooler: see "
     "postgres::Options::prepare); start it over"},
    {"28", Kind::permanent, "check the user, the password and the server's pg_hba.conf"},
    {"3D000", Kind::permanent, "create the database, or correct the URL"},
    {"40", Kind::retryable, "it conflicted with another transaction; start it over"},
    {"42501", Kind::permanent, "grant what docs/databases.md lists for this role", true},
    {"42P01", Kind::permanent,
     "the table is missing: run outbox migrate up, and check the schema "
     "and the search path",
     true},
    {"42", Kind::misuse, nullptr},
    {"22", Kind::misuse, nullptr},
    // Poolers say it of whatever they complain of, but close the connection then: that is what
    // is seen of it last, without a state.
    {kWrongMessage, Kind::misuse, "give as many values as the statement has $1, $2, ..."},
    {"08", Kind::retryable, "the connection was lost"},
    {"53300", Kind::retryable,
     "the server has no connection left; raise max_connections or lower "
     "postgres::Options::connections"},
    {"53", Kind::retryable, "the server is out of a resource; make room"},
    {"54", Kind::permanent, nullptr},
    {"55", Kind::retryable, "it was blocked by another transaction; try again"},
    {"57", Kind::retryable, "it was cancelled on the server; try again"},
    {"58", Kind::retryable, "the server's host failed; see its log"},
    {"XX", Kind::permanent, "see the server's log"},
    {"0A000", Kind::misuse, nullptr},
};

ErrorClass meaning_of(std::string_view state) {
  const auto* found = std::find_if(std::begin(kMeanings), std::end(kMeanings),
                                   [&](const ErrorClass& m) { return state.starts_with(m.state); });
  return found != std::end(kMeanings) ? *found : ErrorClass{state, Kind::permanent, nullptr};
}

struct StateKind {
  std::string_view state;  // or its first two characters
  DatabaseError::Kind kind;
};

// The first that fits counts.
constexpr StateKind kStateKinds[] = {
    {kUniqueViolation, DatabaseError::Kind::unique_violation},
    {"23001", DatabaseError::Kind::foreign_key_violation},
    {"23503", DatabaseError::Kind::foreign_key_violation},
    {"23502", DatabaseError::Kind::not_null_violation},
    {"23514", DatabaseError::Kind::check_violation},
    {"22", DatabaseError::Kind::invalid_data},
    {"42501", DatabaseError::Kind::permission_denied},
    {"28", DatabaseError::Kind::permission_denied},
    {"42703", DatabaseError::Kind::undefined_object},
    {"42704", DatabaseError::Kind::undefined_object},
    {"42883", DatabaseError::Kind::undefined_object},
    {"42P01", DatabaseError::Kind::undefined_object},
    {"3D000", DatabaseError::Kind::undefined_object},
    {"3F000", DatabaseError::Kind::undefined_object},
    {"42", DatabaseError::Kind::syntax_error},
};

DatabaseError::Details details_of(const PGresult* result) {
  const std::string_view state = sql_state(result);
  const auto* found =
      std::find_if(std::begin(kStateKinds), std::end(kStateKinds),
                   [&](const StateKind& each) { return state.starts_with(each.state); });
  const auto field = [&](int code) {
    const char* text = PQresultErrorField(result, code);
    return printable(text == nullptr ? "" : text);
  };
  std::string constraint = field(PG_DIAG_CONSTRAINT_NAME);
  if (constraint.empty() && state.starts_with("23")) constraint = field(PG_DIAG_COLUMN_NAME);
  return {.kind = found != std::end(kStateKinds) ? found->kind : DatabaseError::Kind::other,
          .sqlstate = std::string(state),
          .constraint = std::move(constraint)};
}

std::string one_line(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::erase(line, '\t');
  return printable(line);
}

}  // namespace

std::string_view sql_state(const PGresult* result) {
  const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return state == nullptr ? "" : state;
}

std::string message_of(PGconn* connection, const PGresult* result) {
  if (const char* primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)) {
    std::string message = one_line(primary);
    // Of a key that is taken the detail names the key. Others may show the whole row,
    // and so put payloads into logs.
    if (const char* detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
        detail != nullptr && sql_state(result) == kUniqueViolation) {
      message.append(": ").append(one_line(detail));
    }
    return message;
  }
  const char* text = result != nullptr ? PQresultErrorMessage(result) : "";
  if (*text == '\0') text = PQerrorMessage(connection);
  return *text == '\0' ? "the server closed the connection" : one_line(text);
}

void throw_failure(PGconn* connection, const PGresult* result, std::string_view doing,
                   std::string_view where, Whose whose) {
  const std::string_view state = sql_state(result);
  std::string message = "cannot ";
  message.append(doing).append(" (").append(where).append("): ");
  message.append(message_of(connection, result));
  if (state.empty()) {
    // libpq's own complaints: a lost connection, or a misuse of ours.
    throw RetryableError(message + "; the connection is re-established");
  }
  message.append(" [SQLSTATE ").append(state).append("]");
  const ErrorClass meaning = meaning_of(state);
  const bool fits = whose != Whose::users || !meaning.ours_only;
  if (meaning.hint != nullptr && fits) message.append("; ").append(meaning.hint);
  // Without the library's tables the database cannot be used as it is, whatever the statement.
  const bool ours_missing =
      whose == Whose::users_on_our_tables && meaning.ours_only && meaning.kind == Kind::permanent;
  if (whose != Whose::ours && meaning.kind != Kind::retryable && !ours_missing &&
      state != kWrongMessage) {
    throw DatabaseError(message, details_of(result));
  }
  throw_as(meaning.kind, message);
}

void throw_not_connected(PGconn* connection, std::string_view where) {
  const std::string reason = message_of(connection, nullptr);
  std::string message = "cannot connect (";
  message.append(where).append("): ").append(reason);
  // There is no SQLSTATE for a connection that failed. Only the text tells
  // permanent failures from others, and libpq and the server translate it by
  // the locale, so this is a guess on the safe side: the others are
  // tried again.
  static constexpr std::array<std::string_view, 7> kForGood{
      "password authentication failed", "no password supplied", "no pg_hba.conf entry",
      "authentication failed",          "does not exist",       "certificate verify failed",
      "does not match host name"};
  const bool bad_setting = reason.starts_with("invalid ");
  const bool for_good =
      bad_setting || std::any_of(kForGood.begin(), kForGood.end(), [&](std::string_view text) {
        return reason.find(text) != std::string::npos;
      });
  if (for_good) {
    throw PermanentError(message + "; check the URL, the role and the server's pg_hba.conf");
  }
  throw RetryableError(message + "; check that the server runs and can be reached");
}

}  // namespace outbox::postgres
