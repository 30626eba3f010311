#include "client/postgres/session.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/quote.h"
#include "base/sql_text.h"
#include "client/postgres/user_statement.h"
#include "outbox/error.h"

namespace outbox::postgres {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kText = 0;
constexpr int kBinary = 1;

// How many statements of the user's a connection remembers.
constexpr std::size_t kUserStatements = 16;

constexpr std::string_view kDiscarded = "26000";
constexpr std::string_view kReadOnly = "25006";

// Two sessions on one connection of a user's must not share a name.
std::string unique_prefix() {
  static std::atomic<std::uint64_t> sessions{0};
  return "outbox_" + std::to_string(sessions.fetch_add(1)) + "_";
}

bool failed(const PGresult* result) {
  switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_EMPTY_QUERY:
      return false;
    default:
      return true;
  }
}

bool copies(const PGresult* result) {
  switch (PQresultStatus(result)) {
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
    case PGRES_COPY_BOTH:
      return true;
    default:
      return false;
  }
}

}  // namespace

Session::Session(PGconn* connection, std::shared_ptr<const SqlContext> context, Prepare prepare)
    : connection_(connection),
      context_(std::move(context)),
      prepare_(context_->may_prepare() ? prepare : Prepare::never),
      prefix_(unique_prefix()) {}

Session::Unblocked::Unblocked(const Session& session)
    : session_(session),
      switched_(session.limit_ && PQisnonblocking(session.connection_) == 0 &&
                PQsetnonblocking(session.connection_, 1) == 0) {}

// Data left to send on a connection that was given up is never sent: closing it must not
// wait for that either.
Session::Unblocked::~Unblocked() {
  if (switched_ && !session_.broken()) PQsetnonblocking(session_.connection_, 0);
}

void Session::begin_call() {
  if (limit_) deadline_ = steady_clock::now() + *limit_;
}

void Session::fail(const PGresult* result, std::string_view purpose) const {
  // Of what a user's transaction did, a deferred constraint can fail as late as that.
  Whose whose = purpose == kCommit.purpose ? Whose::users : whose_;
  if (whose == Whose::users && context_->is_about_own_tables(message_of(connection_, result))) {
    whose = Whose::users_on_our_tables;
  }
  throw_failure(connection_, result, purpose, context_->where(), whose);
}

Session::Kept& Session::kept(const Sql& sql) {
  const auto [found, added] = kept_.try_emplace(&sql);
  if (added) found->second.text = context_->expand(sql.text);
  return found->second;
}

// Whether the statement can be run by its name.
bool Session::prepared(Kept& statement, const Sql& sql, const Parameters& parameters) {
  if (!statement.name.empty()) return true;
  if (prepare_ == Prepare::never || !sql.prepare) return false;
  if (prepare_ == Prepare::from_second_use && statement.uses++ == 0) return false;
  statement.name = prepare(statement.text, parameters.size(), parameters.types(), sql.purpose);
  return true;
}

// The name of the statement from now on.
std::string Session::prepare(const std::string& text, int count, const Oid* types,
                             std::string_view purpose) {
  std::string name = prefix_ + std::to_string(++named_);
  begin_call();
  if (PQsendPrepare(connection_, name.c_str(), text.c_str(), count, types) == 0) {
    fail(nullptr, purpose);
  }
  checked(receive(purpose), purpose);
  return name;
}

bool Session::send(Kept& statement, bool by_name, const Parameters& parameters) {
  const Parameters::Arrays arrays = parameters.arrays();
  const int sent = by_name
                       ? PQsendQueryPrepared(connection_, statement.name.c_str(), parameters.size(),
                                             arrays.values.data(), arrays.lengths.data(),
                                             arrays.formats.data(), kBinary)
                       : PQsendQueryParams(connection_, statement.text.c_str(), parameters.size(),
                                           parameters.types(), arrays.values.data(),
                                           arrays.lengths.data(), arrays.formats.data(), kBinary);
  return sent != 0;
}

// Waits until the server has said something. Throws if that takes too long.
void Session::wait_for_input(std::string_view purpose) {
  while (true) {
    const int flushed = PQflush(connection_);
    if (flushed == 0 && PQisBusy(connection_) == 0) return;
    if (PQsocket(connection_) < 0) return;  // lost: PQgetResult says why
    pollfd socket{.fd = PQsocket(connection_),
                  .events = static_cast<short>(POLLIN | (flushed > 0 ? POLLOUT : 0)),
                  .revents = 0};
    const auto left = std::chrono::ceil<milliseconds>(deadline_ - steady_clock::now());
    const int ready = poll(&socket, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
    if (ready == 0) {
      // Whatever comes late on this connection must not pass for another answer.
      const std::string message = "cannot " + std::string(purpose) + " (" + context_->where() +
                                  "): no answer within " + std::to_string(limit_->count()) +
                                  " ms; the connection is closed, and the next call reconnects";
      given_up_ = true;
      throw RetryableError(message);
    }
    if (ready > 0 && PQconsumeInput(connection_) == 0) return;  // PQgetResult says why
  }
}

// The last result of what was sent; null if there is none.
ResultHandle Session::receive(std::string_view purpose) {
  ResultHandle last;
  while (true) {
    if (limit_) wait_for_input(purpose);
    ResultHandle next(PQgetResult(connection_));
    if (!next) return last;
    last = std::move(next);
    if (copies(last.get())) {
      given_up_ = true;  // one of the two would wait for ever
      throw MisuseError("cannot " + std::string(purpose) + " (" + context_->where() +
                        "): COPY needs libpq's own calls; see postgres::handle()");
    }
  }
}

Result Session::checked(ResultHandle result, std::string_view purpose) {
  if (!result || failed(result.get())) {
    note_failure(result.get());
    fail(result.get(), purpose);
  }
  return Result(std::move(result));
}

void Session::note_failure(const PGresult* failure) {
  if (sql_state(failure) == kReadOnly) misplaced_ = true;
  if (sql_state(failure) != kDiscarded) return;
  // Somebody threw the prepared statements away (DISCARD ALL, a pooler), and will do so
  // again: this connection goes on without any.
  prepare_ = Prepare::never;
  kept_.clear();
  recent_.clear();
}

Result Session::run(const Sql& sql, const Parameters& parameters) {
  if (begin_first_ || begins_own_transaction()) {
    const Call calls[] = {{sql, parameters}};
    return std::move(run_together(calls).front());
  }
  const Unblocked unblocked(*this);
  Kept& statement = kept(sql);
  const bool by_name = prepared(statement, sql, parameters);
  begin_call();
  if (!send(statement, by_name, parameters)) {
    fail(nullptr, sql.purpose);
  }
  return checked(receive(sql.purpose), sql.purpose);
}

bool Session::begins_own_transaction() const {
  return !settings_.empty() && PQtransactionStatus(connection_) == PQTRANS_IDLE;
}

std::vector<Result> Session::run_together(std::span<const Call> calls) {
  if (begins_own_transaction()) return run_in_own_transaction(calls);
  const Unblocked unblocked(*this);
  std::vector<bool> by_name;
  std::vector<std::string_view> purposes;
  for (const Call& call : calls) {
    by_name.push_back(prepared(kept(call.sql), call.sql, call.parameters));
    purposes.push_back(call.sql.purpose);
  }
  return pipeline(purposes, [&](std::size_t i) {
    return send(kept(calls[i].sql), by_name[i], calls[i].parameters);
  });
}

// Between a BEGIN of the right kind and a COMMIT.
std::vector<Result> Session::run_in_own_transaction(std::span<const Call> calls) {
  std::vector<std::string_view> purposes{kBegin.purpose, kSetUp.purpose};
  for (const Call& call : calls) purposes.push_back(call.sql.purpose);
  purposes.emplace_back("commit what was changed");
  const Parameters none;
  const auto send_text = [&](const std::string& text) {
    Kept statement{.text = text};
    return send(statement, false, none);
  };
  try {
    std::vector<Result> results = pipeline(purposes, [&](std::size_t i) {
      if (i == 0) return send_text(settings_.begin);
      if (i == 1) return send_text(settings_.rest);
      if (i == purposes.size() - 1) return send_text(std::string(kCommit.text));
      return send(kept(calls[i - 2].sql), false, calls[i - 2].parameters);
    });
    results.erase(results.begin(), results.begin() + 2);
    results.pop_back();
    return results;
  } catch (...) {
    if (!broken()) static_cast<void>(try_script("ROLLBACK"));
    throw;
  }
}

// As a statement with its values in it.
std::string Session::written(const Call& call) {
  Kept& statement = kept(call.sql);
  if (!prepared(statement, call.sql, call.parameters)) {
    return call.parameters.written_into(statement.text);
  }
  std::string text = "EXECUTE " + statement.name;
  for (int i = 0; i < call.parameters.size(); ++i) {
    text.append(i == 0 ? "(" : ",").append(call.parameters.literal(i));
  }
  return call.parameters.size() == 0 ? text : text + ")";
}

std::vector<Result> Session::run_at_once(std::span<const Call> calls) {
  const Unblocked unblocked(*this);
  std::string text;
  std::size_t before = 0;  // statements that are not the caller's
  if (begins_own_transaction()) {
    text.append(settings_.begin_text).append(";").append(settings_.rest).append(";\n");
    before = 2;
  }
  for (const Call& call : calls) text.append(written(call)).append("\n;");
  const std::string_view purpose = calls.front().sql.purpose;
  begin_call();
  if (PQsendQuery(connection_, text.c_str()) == 0) {
    fail(nullptr, purpose);
  }
  std::vector<ResultHandle> answers = receive_all(purpose);
  std::vector<Result> results;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const bool own = i >= before && i - before < calls.size();
    results.push_back(
        checked(std::move(answers[i]), own ? calls[i - before].sql.purpose : purpose));
  }
  if (results.size() != before + calls.size()) checked(nullptr, purpose);
  results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(before));
  return results;
}

std::vector<ResultHandle> Session::receive_all(std::string_view purpose) {
  std::vector<ResultHandle> results;
  while (true) {
    if (limit_) wait_for_input(purpose);
    ResultHandle next(PQgetResult(connection_));
    if (!next) return results;
    results.push_back(std::move(next));
  }
}

// What `send` sends for each of the purposes, in one round trip.
template <class Send>
std::vector<Result> Session::pipeline(std::span<const std::string_view> purposes,
                                      const Send& send) {
  const Parameters none;
  const bool begin_by_name = begin_first_ && prepared(kept(kBegin), kBegin, none);
  const bool begin = std::exchange(begin_first_, false);
  begin_call();
  if (PQenterPipelineMode(connection_) == 0) fail(nullptr, purposes.front());
  bool sent = !begin || this->send(kept(kBegin), begin_by_name, none);
  for (std::size_t i = 0; sent && i < purposes.size(); ++i) sent = send(i);
  if (!sent || PQpipelineSync(connection_) == 0) fail(nullptr, purposes.front());

  // All of the answers are read before an error is thrown: the connection stays
  // usable.
  std::vector<Result> results;
  ResultHandle failure;
  std::string_view failed_at;
  const auto take = [&](std::string_view purpose) {
    ResultHandle result = receive(purpose);
    const bool good = result && !failed(result.get());
    if (!good && failed_at.empty()) {
      failure = std::move(result);
      failed_at = purpose;
    } else if (good) {
      results.emplace_back(std::move(result));
    }
  };
  if (begin) {
    take(kBegin.purpose);
    results.clear();
  }
  for (const std::string_view purpose : purposes) {
    if (!broken()) take(purpose);
  }
  if (!broken()) {
    if (limit_) wait_for_input(purposes.front());
    const ResultHandle sync(PQgetResult(connection_));
    if (PQexitPipelineMode(connection_) == 0) fail(nullptr, purposes.front());
    if (!failed_at.empty()) note_failure(failure.get());
  }
  if (results.size() < purposes.size()) {
    fail(failure.get(), failed_at.empty() ? purposes.front() : failed_at);
  }
  return results;
}

Result Session::run_script(const std::string& text, std::string_view purpose) {
  const Unblocked unblocked(*this);
  const bool begin = std::exchange(begin_first_, false);
  const std::string all = begin ? std::string(kBegin.text).append(";").append(text) : text;
  begin_call();
  if (PQsendQuery(connection_, all.c_str()) == 0) {
    fail(nullptr, purpose);
  }
  return checked(receive(purpose), purpose);
}

ResultHandle Session::try_script(const char* text) noexcept {
  const Unblocked unblocked(*this);
  begin_first_ = false;
  begin_call();
  try {
    if (PQsendQuery(connection_, text) == 0) return nullptr;
    return receive(text);
  } catch (const std::exception&) {
    return nullptr;  // given up
  }
}

// PostgreSQL keeps the plan of a prepared statement: that of an INSERT does not grow old
// with the tables. A result would have to keep its columns, and an external connection is
// not ours to fill.
bool Session::may_stay_prepared(std::string_view text, const UserValues& values) const {
  return prepare_ == Prepare::at_once && values.size() > 0 && first_word(text) == "INSERT";
}

// The statement, prepared, if it is one that was run before; else null.
Session::UserStatement* Session::prepared(std::string_view text, const UserValues& values,
                                          std::string_view purpose) {
  const auto known = std::find_if(recent_.begin(), recent_.end(), [&](const UserStatement& each) {
    return each.text == text && each.types == values.types();
  });
  if (known == recent_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, known);
  UserStatement& statement = recent_.front();
  if (statement.doubtful) deallocate(statement, purpose);
  if (statement.name.empty()) {
    statement.name = prepare(statement.text, values.size(), values.types().data(), purpose);
  }
  return &statement;
}

void Session::remember(std::string text, std::vector<Oid> types) {
  recent_.push_front({.text = std::move(text), .types = std::move(types)});
  if (recent_.size() <= kUserStatements) return;
  deallocate(recent_.back(), "drop a prepared statement");
  recent_.pop_back();
}

void Session::deallocate(UserStatement& statement, std::string_view purpose) {
  if (statement.name.empty()) return;
  begin_call();
  if (PQsendQuery(connection_, ("DEALLOCATE " + statement.name).c_str()) == 0) {
    fail(nullptr, purpose);
  }
  checked(receive(purpose), purpose);
  statement.name.clear();
  statement.doubtful = false;
}

template <class Send>
Result Session::send_user_statement(std::string_view purpose, const Send& send) {
  if (begin_first_) {
    const std::string_view purposes[] = {purpose};
    return std::move(pipeline(purposes, [&](std::size_t) { return send() != 0; }).front());
  }
  begin_call();
  if (send() == 0) fail(nullptr, purpose);
  return checked(receive(purpose), purpose);
}

// The server would take the bytes for other characters: an inbox would not recognise an
// id that was recorded on another connection.
void Session::check_encoding(std::span<const Parameter> values) const {
  const bool ascii = std::all_of(values.begin(), values.end(), [](const Parameter& value) {
    const auto* text = std::get_if<std::string_view>(&value.held());
    return text == nullptr || std::all_of(text->begin(), text->end(), [](char c) {
             return static_cast<unsigned char>(c) < 0x80;
           });
  });
  if (ascii) return;
  // Whatever alias it was set by: UNICODE is UTF8.
  const std::string_view encoding = pg_encoding_to_char(PQclientEncoding(connection_));
  if (encoding == "UTF8" || encoding == "SQL_ASCII") return;  // the latter changes nothing
  throw MisuseError("the encoding of the connection (" + context_->where() + ") is " +
                    std::string(encoding) +
                    ", and a value has characters that are not ASCII: run SET client_encoding = "
                    "'UTF8'");
}

// Outside of E'...' too.
bool Session::backslashes_escape() const {
  const char* conforming = PQparameterStatus(connection_, "standard_conforming_strings");
  return conforming != nullptr && std::string_view(conforming) == "off";
}

Result Session::run_user_statement(std::string_view text, std::span<const Parameter> values) {
  const Unblocked unblocked(*this);
  const AsUsers users(whose_);
  refuse_transaction_control(text);
  check_encoding(values);
  const UserValues bound(values);
  const std::string purpose = "execute " + quote(text);
  std::string with_numbers;
  if (!values.empty() && text.find('?') != std::string_view::npos) {
    with_numbers = numbered(text, backslashes_escape());
    text = with_numbers;
  }
  if (UserStatement* const repeated = prepared(text, bound, purpose)) {
    repeated->doubtful = true;
    Result result = send_user_statement(purpose, [&] {
      return PQsendQueryPrepared(connection_, repeated->name.c_str(), bound.size(), bound.values(),
                                 bound.lengths(), bound.formats(), kText);
    });
    repeated->doubtful = false;
    return result;
  }
  const std::string terminated(text);
  Result result = send_user_statement(purpose, [&] {
    return PQsendQueryParams(connection_, terminated.c_str(), bound.size(), bound.types().data(),
                             bound.values(), bound.lengths(), bound.formats(), kText);
  });
  const bool has_result = PQnfields(result.handle()) > 0;
  if (may_stay_prepared(text, bound) && !has_result) remember(terminated, bound.types());
  return result;
}

std::int64_t Session::execute(std::string_view text, std::span<const Parameter> values) {
  const Result result = run_user_statement(text, values);
  const std::string_view command = PQcmdStatus(result.handle());
  return command.starts_with("SELECT") ? 0 : result.changed();
}

std::vector<ResultRow> Session::query(std::string_view text, std::span<const Parameter> values) {
  const Result result = run_user_statement(text, values);
  std::vector<ResultRow> rows;
  if (result.rows() == 0) return rows;
  rows.reserve(static_cast<std::size_t>(result.rows()));
  ResultRow::Columns names;
  const int columns = PQnfields(result.handle());
  for (int column = 0; column < columns; ++column) {
    names.emplace_back(PQfname(result.handle(), column));
  }
  const auto shared = std::make_shared<const ResultRow::Columns>(std::move(names));
  for (int number = 0; number < result.rows(); ++number) {
    std::vector<Value> row;
    row.reserve(shared->size());
    for (int column = 0; column < columns; ++column) {
      row.push_back(value_of(result.handle(), number, column));
    }
    rows.emplace_back(shared, std::move(row));
  }
  return rows;
}

void Session::forget_statements() noexcept {
  const auto status = PQtransactionStatus(connection_);
  for (const auto& [sql, statement] : kept_) {
    if (statement.name.empty()) continue;
    // In a failed transaction nothing can be said; they end with the connection.
    if (status != PQTRANS_IDLE && status != PQTRANS_INTRANS) return;
    const ResultHandle ignored(PQexec(connection_, ("DEALLOCATE " + statement.name).c_str()));
  }
  kept_.clear();
}

}  // namespace outbox::postgres
