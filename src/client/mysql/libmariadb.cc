#include "client/mysql/libmariadb.h"

#include <errmsg.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "base/quote.h"
#include "outbox/error.h"

namespace outbox::mysql {
namespace {

using Kind = FailureKind;

struct ErrorClass {
  unsigned number;
  Kind kind;
  const char* hint;
  bool ours_only = false;  // the hint is about the library's tables
};

constexpr const char* kStartOver = "it conflicted with another transaction; start it over";
constexpr const char* kNoWrites = "the server takes no writes: it is a replica, or is failing over";
constexpr const char* kGrant = "grant what docs/databases.md lists for this user";
constexpr const char* kTryAgain = "it was cancelled on the server; try again";
constexpr const char* kMakeRoom = "the server is out of a resource; make room";
constexpr const char* kStatements =
    "the prepared statements are gone (a proxy? see mysql::Options::prepare); start it "
    "over";
constexpr const char* kCheckLogin =
    "check the user, the password, and the hosts that the server lets this user in from";
constexpr const char* kPlugin =
    "install the client library's plugin for this user's authentication, or name its folder with "
    "plugin_dir in the URL";
constexpr const char* kPacket = "raise max_allowed_packet on the server, or send less at once";
constexpr const char* kReconnect = "the connection is re-established";

// The numbers of MySQL, MariaDB, TiDB and their client libraries never change. What is
// not listed goes by its SQLSTATE.
constexpr ErrorClass kMeanings[] = {
    {1020, Kind::retryable, kStartOver},  // MariaDB: a row changed since it was read
    {1021, Kind::retryable, kMakeRoom},
    {1037, Kind::retryable, kMakeRoom},
    {1040, Kind::retryable,
     "the server has no connection left; raise max_connections or lower "
     "mysql::Options::connections"},
    {1041, Kind::retryable, kMakeRoom},
    {1044, Kind::permanent, kGrant, true},
    {1045, Kind::permanent, kCheckLogin},
    {1046, Kind::misuse, "name the database in the URL, or in front of the table"},
    {1047, Kind::retryable, "this node of the cluster is not ready"},
    {1049, Kind::permanent, "create the database, or correct the URL"},
    {1053, Kind::retryable, kTryAgain},
    {1062, Kind::misuse, "an id of your own must be unique", true},
    {1114, Kind::retryable, kMakeRoom},
    {1129, Kind::permanent, "unblock it with FLUSH HOSTS"},
    {1130, Kind::permanent, kCheckLogin},
    {1142, Kind::permanent, kGrant, true},
    {1143, Kind::permanent, kGrant, true},
    {1146, Kind::permanent, "the table is missing: run outbox migrate up, and check the database",
     true},
    {1153, Kind::misuse, kPacket},
    {1180, Kind::retryable, kStartOver},
    {1203, Kind::retryable, "raise max_user_connections or lower mysql::Options::connections"},
    {1205, Kind::retryable, "it was blocked by another transaction; roll back and start it over"},
    {1206, Kind::retryable, kMakeRoom},
    {1213, Kind::retryable, kStartOver},
    {1226, Kind::retryable, "the user has reached a limit of the server"},
    {1227, Kind::permanent, kGrant, true},
    {1243, Kind::retryable, kStatements},
    {1290, Kind::retryable, kNoWrites},
    {1305, Kind::misuse, nullptr},
    {1317, Kind::retryable, kTryAgain},
    {1412, Kind::retryable, kStartOver},
    {1461, Kind::retryable, "raise max_prepared_stmt_count, or switch mysql::Options::prepare off"},
    {1614, Kind::retryable, kStartOver},
    {1615, Kind::retryable, kStartOver},
    {1637, Kind::retryable, kMakeRoom},
    {1698, Kind::permanent, kCheckLogin},
    {1792, Kind::misuse, nullptr},
    {1820, Kind::permanent, "the password has expired; set another one"},
    {1836, Kind::retryable, kNoWrites},
    {1862, Kind::permanent, "the password has expired; set another one"},
    {1927, Kind::retryable, kReconnect},
    {1969, Kind::retryable, "it took longer than max_statement_time"},
    {3024, Kind::retryable, "it took longer than max_execution_time"},
    {3100, Kind::retryable, kStartOver},
    {3101, Kind::retryable, kStartOver},
    {3118, Kind::permanent, "the account is locked"},
    {3572, Kind::retryable, "it was blocked by another transaction; try again"},
    {4031, Kind::retryable, kReconnect},
    {4151, Kind::permanent, "the account is locked"},
    {8002, Kind::retryable, kStartOver},  // from here on TiDB's
    {8022, Kind::retryable, kStartOver},
    {8028, Kind::retryable, kStartOver},
    {9001, Kind::retryable, kTryAgain},
    {9002, Kind::retryable, kTryAgain},
    {9003, Kind::retryable, kTryAgain},
    {9004, Kind::retryable, kStartOver},
    {9005, Kind::retryable, kTryAgain},
    {9007, Kind::retryable, kStartOver},
    {CR_COMMANDS_OUT_OF_SYNC, Kind::misuse,
     "read all results of the last statement on this connection first"},
    {CR_PARAMS_NOT_BOUND, Kind::misuse, "give a value for each ?"},
    {CR_INVALID_PARAMETER_NO, Kind::misuse, "give as many values as there are ?"},
    {CR_NET_PACKET_TOO_LARGE, Kind::misuse, kPacket},
    {CR_AUTH_PLUGIN_CANNOT_LOAD, Kind::permanent, kPlugin},
    {CR_AUTH_PLUGIN_ERR, Kind::permanent, kPlugin},
};

constexpr unsigned kFirstOfTheClient = CR_MIN_ERROR;
constexpr unsigned kLastOfTheClient = 2'999;
constexpr unsigned kFirstOfMariaDbsClient = 5'000;
constexpr unsigned kLastOfMariaDbsClient = 5'999;

bool is_one_of(unsigned number, std::initializer_list<unsigned> numbers) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

bool came_from_client(unsigned number) {
  return (number >= kFirstOfTheClient && number <= kLastOfTheClient) ||
         (number >= kFirstOfMariaDbsClient && number <= kLastOfMariaDbsClient);
}

ErrorClass meaning_of(const Failure& failure) {
  const auto* found = std::find_if(std::begin(kMeanings), std::end(kMeanings),
                                   [&](const ErrorClass& m) { return m.number == failure.number; });
  if (found != std::end(kMeanings)) return *found;
  if (failure.lost_connection()) return {failure.number, Kind::retryable, kReconnect};
  const auto in_class = [&](std::string_view state) { return failure.state.starts_with(state); };
  if (in_class("40")) return {failure.number, Kind::retryable, kStartOver};
  if (in_class("08")) return {failure.number, Kind::retryable, kReconnect};
  if (in_class("21") || in_class("22") || in_class("42") || in_class("0A")) {
    return {failure.number, Kind::misuse, nullptr};
  }
  return {failure.number, Kind::permanent, nullptr};
}

DatabaseError::Kind kind_of(const Failure& failure) {
  using enum DatabaseError::Kind;
  switch (failure.number) {
    case 1022:
    case 1062:
    case 1169:
    case 1586:
      return unique_violation;
    case 1216:
    case 1217:
    case 1451:
    case 1452:
    case 1761:
    case 1762:
      return foreign_key_violation;
    case 1048:
    case 1263:
    case 1364:
      return not_null_violation;
    case 3819:
    case 4025:
      return check_violation;
    case 1264:
    case 1265:
    case 1292:
    case 1300:
    case 1365:
    case 1366:
    case 1406:
    case 1411:
    case 1690:
      return invalid_data;
    case 1046:
    case 1049:
    case 1051:
    case 1054:
    case 1109:
    case 1128:
    case 1146:
    case 1305:
      return undefined_object;
    case 1044:
    case 1142:
    case 1143:
    case 1227:
    case 1370:
      return permission_denied;
    default:
      break;
  }
  if (failure.state.starts_with("22")) return invalid_data;
  if (failure.state.starts_with("42")) return syntax_error;
  return other;
}

// What the text names behind `before`, up to the quote that `before` ends with.
std::string_view named(std::string_view text, std::string_view before) {
  const auto at = text.rfind(before);
  if (at == text.npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find(before.back()));
}

// The server tells the name in its text alone.
std::string constraint_of(const Failure& failure) {
  const std::string_view text = failure.text;
  const auto first = [&](std::initializer_list<std::string_view> befores) {
    for (const std::string_view before : befores) {
      if (const std::string_view name = named(text, before); !name.empty()) return name;
    }
    return std::string_view{};
  };
  switch (kind_of(failure)) {
    case DatabaseError::Kind::unique_violation: {
      // MySQL 8 has the table in front: 'orders.orders_number'.
      const std::string_view key = first({"for key '"});
      return printable(key.substr(key.find('.') + 1));
    }
    case DatabaseError::Kind::foreign_key_violation:
      return printable(first({"CONSTRAINT `"}));
    case DatabaseError::Kind::not_null_violation:
      return printable(first({"Column '", "Field '"}));
    case DatabaseError::Kind::check_violation:
      return printable(first({"CONSTRAINT `", "Check constraint '"}));
    default:
      return {};
  }
}

DatabaseError::Details details_of(const Failure& failure) {
  return {.kind = kind_of(failure),
          .sqlstate = failure.state,
          .native_code = static_cast<int>(failure.number),
          .constraint = constraint_of(failure)};
}

// Some complaints quote the value that they are about, which may be of a payload.
std::string shown(const Failure& failure) {
  std::string text = printable(failure.text);
  if (is_one_of(failure.number, {1292, 1300, 1366, 1411, 3140, 3141})) {
    text.resize(std::min(text.size(), text.find(": ")));
  }
  return text.empty() ? "the server closed the connection" : text;
}

std::string described(const Failure& failure, std::string_view doing, std::string_view where) {
  std::string message = "cannot ";
  message.append(doing).append(" (").append(where).append("): ").append(shown(failure));
  message.append(" [").append(std::to_string(failure.number)).append("]");
  return message;
}

// The number is that of everything which goes wrong with TLS, also of a connection that
// was lost meanwhile. Only the text tells permanent failures from others, and it
// depends on the TLS library: a guess on the safe side.
bool is_refused_certificate(const Failure& failure) {
  static constexpr std::array<std::string_view, 5> kForGood{
      "certificate", "Certificate", "Validation", "required", "No such file"};
  return failure.number == CR_SSL_CONNECTION_ERROR &&
         std::any_of(kForGood.begin(), kForGood.end(), [&](std::string_view text) {
           return failure.text.find(text) != std::string::npos;
         });
}

}  // namespace

Failure Failure::of(MYSQL* connection) {
  return {mysql_errno(connection), mysql_sqlstate(connection), mysql_error(connection)};
}

Failure Failure::of(MYSQL_STMT* statement) {
  return {mysql_stmt_errno(statement), mysql_stmt_sqlstate(statement), mysql_stmt_error(statement)};
}

bool Failure::lost_connection() const {
  if (came_from_client(number)) {
    return !is_one_of(number, {CR_COMMANDS_OUT_OF_SYNC, CR_PARAMS_NOT_BOUND,
                               CR_INVALID_PARAMETER_NO, CR_NO_PREPARE_STMT});
  }
  // The server says these before it closes the connection.
  return is_one_of(number, {1053, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 4031});
}

bool Failure::ended_transaction() const {
  // Whether 1205 does is a setting of the server's, innodb_rollback_on_timeout.
  return lost_connection() || state.starts_with("40") ||
         is_one_of(number,
                   {1020, 1180, 1205, 1206, 1213, 1614, 1637, 3100, 3101, 8002, 8022, 8028, 9007});
}

bool Failure::not_ready() const {
  // 1290 names the option that forbids the statement, in capitals or small letters.
  const auto names = [&](std::string_view option) {
    return text.find(option) != std::string::npos;
  };
  return is_one_of(number, {1047, 1836, 3032}) ||
         (number == 1290 && (names("read-only") || names("read_only") || names("READ_ONLY")));
}

bool Failure::undoes_commit() const {
  return state.starts_with("40") || state.starts_with("23") ||
         is_one_of(number,
                   {1020, 1205, 1213, 1290, 1836, 3100, 3101, 8002, 8005, 8022, 8028, 9007});
}

bool Failure::lost_statements() const { return number == 1243; }

void throw_failure(const Failure& failure, std::string_view doing, std::string_view where,
                   Whose whose) {
  const ErrorClass meaning = meaning_of(failure);
  std::string message = described(failure, doing, where);
  const bool fits = whose != Whose::users || !meaning.ours_only;
  if (meaning.hint != nullptr && fits) message.append("; ").append(meaning.hint);
  // Without the library's tables the database cannot be used as it is, whatever the statement.
  const bool ours_missing =
      whose == Whose::users_on_our_tables && meaning.ours_only && meaning.kind == Kind::permanent;
  const bool by_server = !came_from_client(failure.number) && !failure.lost_connection();
  if (whose != Whose::ours && meaning.kind != Kind::retryable && !ours_missing && by_server) {
    throw DatabaseError(message, details_of(failure));
  }
  throw_as(meaning.kind, message);
}

void throw_not_connected(const Failure& failure, std::string_view where) {
  std::string message = described(failure, "connect", where);
  if (is_refused_certificate(failure)) {
    throw PermanentError(message + "; check ssl_mode, ssl_ca and the server's certificate");
  }
  const ErrorClass meaning = meaning_of(failure);
  if (came_from_client(failure.number) && meaning.kind == Kind::retryable) {
    throw RetryableError(message + "; check that the server runs and can be reached");
  }
  if (meaning.hint != nullptr) message.append("; ").append(meaning.hint);
  throw_as(meaning.kind, message);
}

}  // namespace outbox::mysql
