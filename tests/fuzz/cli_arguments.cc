// Command lines of any words, a line each, with escapes.h in them. Whatever
// they are, the exit code is one of the five, a refusal says why, and answers in
// JSON are JSON.
#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/commands/application.h"
#include "escapes.h"
#include "no_log.h"
#include "outbox/event.h"
#include "outbox/sqlite.h"
#include "support/temporary_directory.h"
#include "target.h"

namespace outbox::fuzz {
namespace {

constexpr int kRunsOfADatabase = 500;

// A database with an event in each state, recreated now and then because the
// command lines change it.
class Place {
 public:
  Place() {
    std::filesystem::current_path(directory_.path());
    unsetenv("OUTBOX_DB");
    setenv("OUTBOX_DB", "shop.db", 1);
    make(pristine_);
  }

  void prepare() {
    if (runs_++ % kRunsOfADatabase != 0) return;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      if (entry.path().filename() != pristine_) std::filesystem::remove_all(entry.path());
    }
    std::filesystem::copy_file(pristine_, "shop.db");
  }

 private:
  static void make(const std::string& file) {
    const auto store = sqlite::open(file, {.log = no_log()});
    const std::vector<Event> events{
        make_event({.type = "Placed", .payload = json(R"({"a":1})"), .id = "new"}),
        make_event({.type = "Sent", .aggregate_id = "7", .payload = bytes("\xff"), .id = "dead"}),
        make_event({.type = "Paid", .payload = json("[]"), .headers = {{"k", "v"}}, .id = "done"})};
    const auto connection = store->connect();
    connection->begin();
    connection->insert(events, {});
    connection->execute(
        "UPDATE outbox_event SET status = CASE event_id WHEN 'dead' THEN 3 ELSE 1 END, hold = NULL,"
        " done_at = created_at, last_error = 'no' WHERE event_id <> 'new'",
        {});
    connection->commit();
  }

  const test::TemporaryDirectory directory_;
  const std::string pristine_ = "pristine.db";
  int runs_ = 0;
};

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// What would leave the scratch directory, start processes or wait is not run.
bool is_harmless(const std::vector<std::string>& words) {
  if (contains(words, "demo")) return false;
  return std::none_of(words.begin(), words.end(), [](const std::string& word) {
    return word.find_first_of("/%") != std::string::npos || word.starts_with("--rate") ||
           word.starts_with("--seconds") || word.starts_with("--pause");
  });
}

std::vector<std::string> words_of(std::string_view input) {
  std::vector<std::string> words{"outbox"};
  for (const std::string_view line : lines_of(input)) {
    // The system ends an argument at the first NUL.
    words.emplace_back(unescape(line).c_str());
  }
  if (contains(words, "tail")) words.insert(words.end(), {"--seconds", "0"});
  return words;
}

// Whether --json is there for sure, and not the value of another option.
bool wants_json(const std::vector<std::string>& words) {
  if (contains(words, "--") || contains(words, "--help") || contains(words, "--version") ||
      contains(words, "print")) {
    return false;
  }
  // -h may stand among other letters.
  const bool may_ask_for_help =
      std::any_of(words.begin(), words.end(), [](const std::string& word) {
        return word.starts_with("-") && !word.starts_with("--") &&
               word.find('h') != std::string::npos;
      });
  if (may_ask_for_help) return false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--json" && !words[i - 1].starts_with("-")) return true;
  }
  return false;
}

void check_answer(const std::vector<std::string>& words, int code, const std::string& out,
                  const std::string& err) {
  constexpr std::array kCodes{0, 1, 64, 69, 78};
  require(std::find(kCodes.begin(), kCodes.end(), code) != kCodes.end(),
          "the exit code is a known one");
  if (code == 64 || code == 78) require(!err.empty(), "a refusal says why");
  if (code != 0 || !wants_json(words)) return;
  for (const std::string_view line : lines_of(out)) {
    require(!check_json(line), "with --json every line is JSON");
  }
}

}  // namespace
}  // namespace outbox::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace outbox::fuzz;
  static Place place;
  const std::vector<std::string> words = words_of(text_of(data, size).substr(0, 4'096));
  if (!is_harmless({words.begin(), std::find(words.begin(), words.end(), "--seconds")})) return 0;
  place.prepare();
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::istringstream in("{}");
  std::ostringstream out;
  std::ostringstream err;
  const int code = outbox::cli::run(static_cast<int>(argv.size()), argv.data(),
                                    {.in = in, .out = out, .err = err});
  check_answer(words, code, out.str(), err.str());
  return 0;
}
