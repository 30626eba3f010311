// SQL of the patterns, in the dialect of a store.
#pragma once

#include <string>
#include <string_view>

#include "outbox/spi/store.h"

namespace outbox::internal {

// Spells out what SQL text leaves open in braces:
//
//   {inbox}, {version} ...           the table of that name beside the events'
//   {now}                            the time, by the database's clock
//   {clock}                          the same, as microseconds since 1970
//   {after ?}, {before ?}            that many microseconds from now, or ago
//   {left}                           how many microseconds are left until lease_until
//   {insert}, {unless there}         INSERT INTO t ... that leaves alone what has its key:
//                                    the number of rows it changed tells whether it did
//   ?                                a value; no text in it may have that character
//
// `user`: what is given the store, for messages. Throws MisuseError if the store speaks
// no SQL.
std::string render_sql(std::string_view text, const Store& store, std::string_view user);

}  // namespace outbox::internal
