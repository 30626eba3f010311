// Connections of the user's own, and statements for an executor on one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "base/sql_text.h"
#include "model/external_connection.h"
#include "outbox/error.h"

namespace outbox {

// One that a session of the store works on. Used by one thread at a time.
template <class Session>
class ExternalSession : public ExternalConnection {
 public:
  std::int64_t execute(std::string_view sql, std::span<const Parameter> values) final {
    return session().execute(sql, values);
  }
  std::vector<ResultRow> query(std::string_view sql, std::span<const Parameter> values) final {
    return session().query(sql, values);
  }

 protected:
  template <class... Args>
  explicit ExternalSession(Args&&... args) : session_(std::forward<Args>(args)...) {}

  // Throws MisuseError where it cannot be used: in a child made by fork().
  virtual void check_usable() const { config_of(session_).check_process(); }

  Session& session() const {
    check_usable();
    return session_;
  }
  Session& unchecked_session() const { return session_; }

 private:
  mutable Session session_;
};

// The text of a user's statement for an executor, with its values as `literal` writes them.
// `fill(backslashes, literals)` puts these in the place of the placeholders: whether backslashes
// escape in quotes is the session's setting, which nobody can ask for.
template <class Fill>
std::string statement_text(std::string_view sql, std::span<const Parameter> values,
                           std::string (&literal)(const Parameter& value), const Fill& fill,
                           const char* setting) {
  refuse_transaction_control(sql);
  if (values.empty()) return std::string(sql);
  std::vector<std::string> literals;
  literals.reserve(values.size());
  for (const Parameter& value : values) literals.push_back(literal(value));
  std::string text = fill(false, literals);
  const bool is_plain = sql.find('\\') == std::string_view::npos;
  if (is_plain || text == fill(true, literals)) return text;
  throw MisuseError("which placeholders " + quote(sql) + " has depends on " + setting +
                    ", which an executor cannot tell: pass the text with the backslash as a value");
}

}  // namespace outbox
