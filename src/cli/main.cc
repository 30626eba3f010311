// The outbox binary.
#include <exception>
#include <iostream>

#include "base/quote.h"
#include "cli/commands/application.h"
#include "cli/errors.h"

int main(int argc, char** argv) {
  try {
    return outbox::cli::run(argc, argv, outbox::cli::standard_console());
  } catch (const std::exception& error) {
    std::cerr << "outbox: " << outbox::printable_lines(error.what()) << '\n';
    return outbox::cli::exit_code_of(error);
  }
}
