// What stands behind a stream: a person's terminal, or a file or a program.
#pragma once

#include <cstddef>
#include <optional>

namespace outbox::cli {

bool is_terminal(int descriptor);

// Whether text may be colored there: a terminal, and neither NO_COLOR nor
// TERM=dumb asks us not to.
bool wants_color(int descriptor);

// How many characters fit on a line; none if it is no terminal.
std::optional<std::size_t> line_width(int descriptor);

}  // namespace outbox::cli
