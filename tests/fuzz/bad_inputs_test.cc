// Every line of bad_inputs.tsv: accepted and the same again at the other end, or
// refused by an error that says why, with nothing left behind.
#include "bad_inputs.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <iostream>
#include <set>
#include <sstream>
#include <tuple>

#include "cli/commands/application.h"
#include "no_log.h"
#include "outbox/error.h"
#include "outbox/outbox.h"
#include "outbox/spi/json_codec.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "support/temporary_directory.h"

namespace outbox::fuzz {
namespace {

using namespace std::chrono_literals;

const std::vector<BadInput>& table() {
  static const auto inputs = load_bad_inputs(OUTBOX_BAD_INPUTS);
  return inputs;
}

std::vector<BadInput> those(const std::function<bool(const BadInput&)>& wanted) {
  std::vector<BadInput> found;
  for (const BadInput& input : table()) {
    if (wanted(input)) found.push_back(input);
  }
  return found;
}

bool is_row(const BadInput& input) { return input.field.starts_with("row."); }

::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" does not contain \"" << part << "\"";
}

TEST(BadInputsTable, HasAtLeastTwoHundredDifferentLinesOfKnownFields) {
  std::set<std::tuple<std::string, std::string, bool>> different;
  const auto known = takers();
  for (const BadInput& input : table()) {
    EXPECT_TRUE(different.emplace(input.field, input.value, input.accepted).second)
        << input << " is there twice";
    EXPECT_TRUE(is_event_field(input.field) || is_row(input) || input.field == "cli" ||
                known.contains(input.field))
        << input << ": nobody takes such a field";
  }
  const auto accepted = those([](const BadInput& input) { return input.accepted; });
  std::cout << different.size() << " bad inputs: " << accepted.size() << " accepted, "
            << different.size() - accepted.size() << " refused\n";
  EXPECT_GE(different.size(), 200u);
}

class BadInputs : public ::testing::Test {
 protected:
  std::string path() const { return directory_.file("bad.db"); }

  // A deadlock or a lost event must fail, not hang.
  static constexpr auto kPatience = 30s;

  const test::TemporaryDirectory directory_;
  const std::shared_ptr<Store> store_ =
      sqlite::open(path(), {.durability = sqlite::Durability::normal, .log = no_log()});
  const std::shared_ptr<testing::RecordingListener> listener_ =
      std::make_shared<testing::RecordingListener>();
};

void expect_same(const BadInput& input, const Event& got, const Event& wanted) {
  EXPECT_EQ(got.id(), wanted.id()) << input;
  EXPECT_EQ(got.type(), wanted.type()) << input;
  EXPECT_EQ(got.aggregate_type(), wanted.aggregate_type()) << input;
  EXPECT_EQ(got.aggregate_id(), wanted.aggregate_id()) << input;
  EXPECT_EQ(got.tenant_id(), wanted.tenant_id()) << input;
  EXPECT_EQ(got.headers(), wanted.headers()) << input;
  EXPECT_TRUE(got.payload() == wanted.payload()) << input << ": the payload is another one";
  EXPECT_EQ(got.is_json(), wanted.is_json()) << input;
  EXPECT_EQ(got.content_type(), wanted.content_type()) << input;
}

// --- Events ---

class BadEvents : public BadInputs {
 protected:
  // Everything that anybody writes here.
  Listeners listeners(const std::vector<BadInput>& inputs) const {
    Listeners on;
    for (const BadInput& input : inputs) {
      const Draft draft = draft_with(input);
      if (on.find(draft.aggregate_type.str(), draft.type.str()) == nullptr) {
        on.add(draft.aggregate_type, draft.type, listener_);
      }
    }
    return on;
  }

  static std::vector<BadInput> accepted() {
    return those([](const BadInput& i) { return i.accepted && is_event_field(i.field); });
  }

  static bool is_delayed(const Draft& draft) {
    return draft.deliver_at || draft.deliver_after.value_or(0us) > 0us;
  }

  void write_all(Writer& writer, const std::vector<BadInput>& inputs) {
    for (const BadInput& input : inputs) {
      auto tx = writer.begin();
      EXPECT_EQ(tx.write(draft_with(input)), draft_with(input).id) << input;
      tx.commit();
    }
  }

  void expect_all(const std::vector<BadInput>& inputs) {
    std::map<std::string, BadInput> waiting;
    for (const BadInput& input : inputs) {
      const Draft draft = draft_with(input);
      const auto stored = store_->admin().find(*draft.id);
      ASSERT_TRUE(stored) << input;
      EXPECT_EQ(stored->row.defect, "") << input;
      expect_same(input, stored->row.event, make_event(draft));
      const Event& event = stored->row.event;
      EXPECT_EQ(event.occurred_at(), draft.occurred_at.value_or(event.occurred_at())) << input;
      EXPECT_EQ(event.available_at(), draft.deliver_at.value_or(event.available_at())) << input;
      if (!is_delayed(draft)) waiting.emplace(*draft.id, input);
    }
    ASSERT_TRUE(listener_->wait_for(waiting.size(), kPatience));
    for (const auto& call : listener_->calls()) {
      const auto input = waiting.extract(call.event.id());
      ASSERT_FALSE(input.empty()) << call.event.id();
      expect_same(input.mapped(), call.event, make_event(draft_with(input.mapped())));
    }
    EXPECT_TRUE(waiting.empty());
  }
};

TEST_F(BadEvents, AcceptedOnesAreTheSameOnTheHotPath) {
  testing::RecordingLog log;
  Outbox box(store_, listeners(accepted()), {.ordering = Ordering::none, .log = log.log()});
  box.start();
  write_all(box.writer(), accepted());
  expect_all(accepted());
  box.close();
}

TEST_F(BadEvents, AcceptedOnesAreTheSameAfterPolling) {
  Writer writer(store_);
  write_all(writer, accepted());
  Outbox box(store_, listeners(accepted()), {.queue = {.batch = 7}, .log = no_log()});
  box.start();
  expect_all(accepted());
  box.close();
}

TEST_F(BadEvents, RefusedOnesNameTheFieldAndLeaveNothingBehind) {
  Writer writer(store_);
  std::int64_t written = 0;
  for (const BadInput& input :
       those([](const BadInput& i) { return !i.accepted && is_event_field(i.field); })) {
    const Draft good{.type = "Kept", .payload = json("{}")};
    auto tx = writer.begin();
    tx.write(good);
    try {
      tx.write(draft_with(input));
      ADD_FAILURE() << input << " was accepted";
    } catch (const MisuseError& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with("event ")) << error.what();
      EXPECT_TRUE(has(error.what(), input.part)) << input;
      EXPECT_LT(std::string_view(error.what()).size(), 600u) << input;
    }
    EXPECT_THROW(tx.write_all({good, draft_with(input)}), MisuseError) << input;
    tx.commit();
    EXPECT_EQ(store_->admin().count({}), ++written) << input;
  }
  EXPECT_GT(written, 90);
}

// --- Rows by plain SQL ---

class BadRows : public BadInputs {
 protected:
  // The error of the database, if it refuses the row.
  std::string insert(const BadInput& input) {
    const std::string column = input.field.substr(std::string("row.").size());
    std::map<std::string, std::string> values{
        {"event_id", "'" + id_of(input) + "'"}, {"event_type", "'Happened'"}, {"payload", "'{}'"}};
    values[column] = input.value;
    std::string names;
    std::string expressions;
    for (const auto& [name, expression] : values) {
      names += (names.empty() ? "" : ", ") + name;
      expressions += (expressions.empty() ? "" : ", ") + expression;
    }
    const std::string sql = "INSERT INTO outbox_event (" + names + ") VALUES (" + expressions + ")";
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
    const int code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
    std::string error = code == SQLITE_OK ? "" : sqlite3_errmsg(db);
    sqlite3_close(db);
    return error;
  }

  static std::string id_of(const BadInput& input) { return "line " + std::to_string(input.line); }

  static std::string field_of(const Event& event, const std::string& field) {
    if (field == "row.payload") return event.payload();
    if (field == "row.headers") return default_json_codec()->encode(event.headers());
    if (field == "row.event_type") return event.type();
    if (field == "row.aggregate_type") return event.aggregate_type();
    if (field == "row.aggregate_id") return event.aggregate_id();
    if (field == "row.tenant_id") return event.tenant_id();
    return {};
  }
};

TEST_F(BadRows, AreDecodedOrDieWithTheReasonAndTheBatchGoesOn) {
  const auto inputs = those(is_row);
  std::vector<BadInput> stored;
  Listeners on;
  for (const BadInput& input : inputs) {
    const std::string error = insert(input);
    if (!error.empty()) {
      EXPECT_FALSE(input.accepted) << input << ": " << error;
      EXPECT_TRUE(has(error, input.part)) << input;
      EXPECT_FALSE(store_->admin().find(id_of(input))) << input;
      continue;
    }
    stored.push_back(input);
    const auto record = store_->admin().find(id_of(input));
    ASSERT_TRUE(record) << input;
    const Event& event = record->row.event;
    EXPECT_EQ(event.id(), id_of(input));
    if (input.accepted) {
      EXPECT_EQ(record->row.defect, "") << input;
      EXPECT_EQ(field_of(event, input.field), input.part) << input;
    } else {
      EXPECT_TRUE(has(record->row.defect, input.part)) << input;
    }
    // Types that no listener can have go where such events go.
    const bool can_listen = !event.type().empty() && event.type().front() != '\xff';
    if (can_listen && on.find(event.aggregate_type(), event.type()) == nullptr) {
      on.add(event.aggregate_type(), event.type(), listener_);
    }
  }
  ASSERT_GT(stored.size(), 40u);

  Outbox box(store_, on, {.queue = {.batch = 5}, .log = no_log()});
  box.start();
  const bool idle = box.wait_idle(kPatience);
  for (const EventRecord& left :
       store_->admin().list({.status = {Status::pending, Status::retry}}, 0, 10)) {
    ADD_FAILURE() << left.row.event.id() << " of bad_inputs.tsv still waits: " << left.row.defect;
  }
  ASSERT_TRUE(idle);
  box.close();
  std::set<std::string> delivered;
  for (const auto& call : listener_->calls()) delivered.insert(call.event.id());
  for (const BadInput& input : stored) {
    const auto record = store_->admin().find(id_of(input));
    ASSERT_TRUE(record) << input;
    if (delivered.contains(id_of(input))) {
      EXPECT_TRUE(input.accepted) << input << " was delivered";
      EXPECT_EQ(record->row.status, Status::done) << input;
    } else {
      EXPECT_EQ(record->row.status, Status::dead) << input;
      EXPECT_TRUE(has(record->last_error, input.accepted ? "no listener for" : input.part))
          << input;
    }
  }
}

// --- Everything else ---

TEST(BadValues, AreTakenOrRefusedWithAReason) {
  const auto all = takers();
  for (const BadInput& input : table()) {
    const auto take = all.find(input.field);
    if (take == all.end()) continue;
    try {
      const std::string result = take->second(input.value);
      EXPECT_TRUE(input.accepted) << input << " was accepted";
      EXPECT_EQ(result, input.part.empty() ? result : input.part) << input;
    } catch (const std::exception& error) {
      EXPECT_FALSE(input.accepted) << input << " was refused: " << error.what();
      EXPECT_TRUE(has(error.what(), input.part)) << input;
      EXPECT_FALSE(has(error.what(), "secret")) << input;
      if (input.field.starts_with("option.") || input.field == "table") {
        EXPECT_NE(dynamic_cast<const MisuseError*>(&error), nullptr) << input;
      }
    }
  }
}

class BadCommandLines : public BadInputs {
 protected:
  struct Answer {
    int code = 0;
    std::string out{};
    std::string err{};
  };

  // Words are joined by |; the word @ stands for the database.
  Answer run(const std::string& line) const {
    std::vector<std::string> words{"outbox"};
    std::istringstream all(line);
    for (std::string word; std::getline(all, word, '|');) {
      words.push_back(word == "@" ? path() : word);
    }
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    const int code =
        cli::run(static_cast<int>(argv.size()), argv.data(), {.in = in, .out = out, .err = err});
    return {code, out.str(), err.str()};
  }
};

TEST_F(BadCommandLines, EndWithAnExitCodeOfTheirOwnAndChangeNothing) {
  ASSERT_EQ(unsetenv("OUTBOX_DB"), 0);
  for (const BadInput& input : those([](const BadInput& i) { return i.field == "cli"; })) {
    const Answer answer = run(input.value);
    if (input.accepted) {
      EXPECT_EQ(answer.code, 0) << input << answer.err;
      EXPECT_TRUE(has(answer.out, input.part)) << input;
      continue;
    }
    EXPECT_TRUE(answer.code == 64 || answer.code == 78) << input << ": " << answer.code;
    EXPECT_EQ(answer.out, "") << input;
    EXPECT_TRUE(has(answer.err, input.part)) << input;
    EXPECT_FALSE(has(answer.err, "secret")) << input;
  }
  EXPECT_EQ(store_->admin().count({}), 0);
}

}  // namespace
}  // namespace outbox::fuzz
