// Which of the histories of a database this is.
#pragma once

#include <string>

#include "client/mysql/facts.h"
#include "client/mysql/literal.h"
#include "client/mysql/statement.h"

namespace outbox::mysql {

// A replica that becomes the primary may lack what the last one had committed: from there
// on it has another history, with other rows under the same numbers. What tells them
// apart is the server, or the cluster, and how far it has come.
struct History {
  std::string server{};    // empty: nothing is known
  std::string position{};  // GTIDs, or how many transactions a cluster has had

  // That the position which append_columns() was told of is in it.
  bool includes_last = true;

  // Appends the three columns that of() reads to a SELECT. `last` is what was known
  // before: MySQL compares its own GTIDs.
  static void append_columns(Built& select, const Facts& facts, const History& last);

  // Of the first row of the result, whose columns begin there.
  static History of(const Result& result, int column);

  // Whether `now`, which was read with the columns for this one, may lack something of it.
  // Another server may, whatever it says: what it has beyond the other one's end is not
  // known. The nodes of a cluster are one.
  bool ends_before(const History& now) const;
};

}  // namespace outbox::mysql
