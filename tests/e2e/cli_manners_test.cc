// What all commands have in common: color, streams, help, and what the man page
// and the completion say about them.
#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "cli_runner.h"

namespace outbox::e2e {
namespace {

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::string kCompletion = OUTBOX_SOURCES "/packaging/completion/outbox";
const std::string kManPage = OUTBOX_SOURCES "/packaging/man/outbox.1";

// What a shell command prints, both streams together.
std::string shell(const std::string& command) {
  std::string text;
  FILE* pipe = popen(("exec 2>&1; " + command).c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) {
    text.append(buffer.data(), got);
  }
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << text;
  return text;
}

// The commands and their options, as the completion knows them: it is made from
// the command line itself.
std::map<std::string, std::vector<std::string>> commands(const std::string& completion) {
  std::map<std::string, std::vector<std::string>> found;
  const std::regex line("\n    '([a-z ]*)'\\) words='([^']*)'");
  for (std::sregex_iterator at(completion.begin(), completion.end(), line), end; at != end; ++at) {
    std::istringstream words((*at)[2]);
    found[(*at)[1]] = {std::istream_iterator<std::string>(words), {}};
  }
  return found;
}

Arguments words_of(const std::string& path) {
  std::istringstream words(path);
  return {std::istream_iterator<std::string>(words), {}};
}

class Manners : public CliTest {
 protected:
  // Each with something to color.
  std::vector<Arguments> colorful() {
    const std::string dead = publish("A");
    kill(dead, "oh");
    return {{"status"},
            {"doctor"},
            {"events", "list"},
            {"events", "show", dead},
            {"dead", "list"},
            {"dead", "show", dead},
            {"dead", "groups"},
            {"migrate", "status"},
            {"events", "tail", "--after", "0", "--seconds", "0"}};
  }

  static std::string line(const Arguments& arguments) {
    std::string text;
    for (const std::string& argument : arguments) text += argument + " ";
    return text;
  }
};

TEST_F(Manners, ColorsAreForTerminalsOnly) {
  for (const Arguments& arguments : colorful()) {
    const Result piped = run(arguments);
    EXPECT_EQ(piped.code, 0) << line(arguments) << piped.err;
    EXPECT_TRUE(lacks(piped.out + piped.err, "\x1b")) << line(arguments);
    EXPECT_TRUE(contains(run_at_terminal(arguments).out, "\x1b[")) << line(arguments);
  }
}

TEST_F(Manners, NoColorIsHeeded) {
  for (const Arguments& arguments : colorful()) {
    for (const auto& [name, value] : {std::pair{"NO_COLOR", "1"}, std::pair{"TERM", "dumb"}}) {
      const Result result = run_at_terminal(arguments, {.environment = {{name, value}}});
      EXPECT_EQ(result.code, 0) << line(arguments);
      EXPECT_TRUE(lacks(result.out, "\x1b")) << line(arguments);
    }
  }
  EXPECT_TRUE(
      contains(run_at_terminal({"status"}, {.environment = {{"NO_COLOR", ""}}}).out, "\x1b["))
      << "empty means not set";
}

TEST_F(Manners, JsonIsNeverColored) {
  for (Arguments arguments : colorful()) {
    arguments.push_back("--json");
    const Result result = run_at_terminal(arguments);
    EXPECT_TRUE(lacks(result.out, "\x1b")) << line(arguments);
    EXPECT_FALSE(result.json_lines().empty()) << line(arguments);
  }
}

TEST_F(Manners, TablesFitTheTerminal) {
  kill(publish("A", {"--aggregate-id", std::string(100, 'x')}), std::string(500, 'e'));
  const Result result = run_at_terminal({"events", "list"}, {.environment = {{"NO_COLOR", "1"}}});
  std::istringstream lines(result.out);
  for (std::string text; std::getline(lines, text);) {
    std::size_t columns = 0;
    for (const char c : text) columns += (c & 0xc0) != 0x80 && c != '\r' ? 1 : 0;
    EXPECT_LE(columns, 100u) << text;
  }
  EXPECT_TRUE(contains(result.out, "…"));
  EXPECT_TRUE(contains(run({"events", "list"}).out, std::string(500, 'e'))) << "whole in a pipe";
}

TEST_F(Manners, AnAnswerThatCannotBeWrittenIsAFailure) {
  publish("A");
  const std::string command =
      "OUTBOX_DB=" + database() + " " OUTBOX_PROGRAM " events list --json >/dev/full; test $? = 1";
  EXPECT_TRUE(contains(shell(command), "cannot write to standard output"));
}

TEST_F(Manners, EveryCommandTeaches) {
  const auto all = commands(run({"completion", "bash"}).out);
  EXPECT_GE(all.size(), 20u);
  for (const auto& [path, words] : all) {
    Arguments arguments = words_of(path);
    arguments.emplace_back("--help");
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0) << path;
    EXPECT_TRUE(contains(result.out, "\nUsage: outbox" + (path.empty() ? "" : " " + path)));
    EXPECT_TRUE(contains(result.out, "\nExamples:\n")) << path;
    EXPECT_TRUE(lacks(result.out, "\n\n\n")) << path;
    for (const std::string& word : words) EXPECT_TRUE(contains(result.out, word)) << path;
  }
}

TEST_F(Manners, TheCompletionThatIsInstalledIsThePresentOne) {
  EXPECT_EQ(contents(kCompletion), run({"completion", "bash"}).out)
      << "make it again: outbox completion bash > packaging/completion/outbox";
}

TEST_F(Manners, TheCompletionCompletes) {
  const auto complete = [&](const std::string& words, int at) {
    return shell("cd " + file("") + " && bash -c 'source " + kCompletion + "; COMP_WORDS=(" +
                 words + "); COMP_CWORD=" + std::to_string(at) +
                 "; _outbox; echo \"${COMPREPLY[*]}\"'");
  };
  std::ofstream(file("shop.db")).flush();
  EXPECT_EQ(complete("outbox ev", 1), "events\n");
  EXPECT_EQ(complete("outbox events \"\"", 2), "list show tail publish --help\n");
  EXPECT_EQ(complete("outbox dead re", 2), "replay\n");
  EXPECT_EQ(complete("outbox events list --ag", 3), "--aggregate-type --aggregate-id\n");
  EXPECT_EQ(complete("outbox events list --status D", 4), "DONE DEAD\n");
  EXPECT_EQ(complete("outbox status --db sh", 3), "shop.db\n");
  EXPECT_EQ(complete("outbox status --db sqlite : sh", 5), "shop.db\n");
  EXPECT_EQ(complete("outbox status --db post", 3), "postgresql://\n");
  EXPECT_EQ(complete("outbox events publish --payload \"\"", 4), "\n") << "takes a value";
  EXPECT_EQ(complete("outbox events tail --payload --sec", 4), "--seconds\n") << "takes none";
}

TEST_F(Manners, TheManPageIsWellFormed) {
  EXPECT_EQ(shell("LC_ALL=C.UTF-8 groff -ww -mandoc -Tutf8 -z " + kManPage), "");
}

std::string man_page() {
  return shell(
      "LC_ALL=C.UTF-8 MANPAGER=cat MANWIDTH=200 man --no-hyphenation --no-justification -l " +
      kManPage + " | col -bx");
}

void collect_keys(const Json& value, std::set<std::string>& keys) {
  for (const auto& [key, member] : value.items()) {
    if (value.is_object()) keys.insert(key);
    if (member.is_structured() && key != "headers") collect_keys(member, keys);
  }
}

TEST_F(Manners, TheManPageNamesEveryFieldOfTheJson) {
  std::vector<Arguments> all = colorful();
  hold({publish("A", {"--aggregate-id", "1"}), publish("A", {"--aggregate-id", "1"})}, "oh");
  const std::string bytes = publish("B", {"--bytes", "--header", "x=y"});
  all.push_back({"events", "show", bytes});
  all.push_back({"purge", "--yes"});
  all.push_back({"migrate", "up"});
  all.push_back({"dead", "replay", "--all", "--yes"});
  all.push_back({"dead", "discard", "--all", "--yes"});
  std::set<std::string> keys;
  for (Arguments arguments : all) {
    arguments.emplace_back("--json");
    const Result result = run(arguments);
    EXPECT_EQ(result.code, 0) << line(arguments) << result.err;
    for (const Json& object : result.json_lines()) collect_keys(object, keys);
  }
  EXPECT_GE(keys.size(), 50u);
  const std::string page = man_page();
  for (const std::string& key : keys) EXPECT_TRUE(contains(page, key));
}

TEST_F(Manners, TheManPageNamesEveryCommandAndOption) {
  const std::string page = man_page();
  for (const auto& [path, words] : commands(run({"completion", "bash"}).out)) {
    EXPECT_TRUE(contains(page, path.empty() ? "outbox" : "outbox " + path));
    for (const std::string& word : words) {
      EXPECT_TRUE(contains(page, word)) << path;
    }
  }
  for (const char* code : {"64", "69", "78"}) EXPECT_TRUE(contains(page, code));
}

}  // namespace
}  // namespace outbox::e2e
