// How --help looks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace outbox::cli {

// CLI11's own form with less noise: what an option is called and takes, what it
// does, and whether it must be there.
class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat();

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
};

}  // namespace outbox::cli
