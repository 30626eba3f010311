// Headers written and read by the application's own JSON library.
//
//   example_custom_codec [database]      default: a temporary file
//
// Worth it if other programs read the column and expect what that library writes,
// or if one strict reader of JSON in a program is enough.
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "outbox/outbox.h"
#include "outbox/spi/json_codec.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"

namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

// One string a line, because several workers print side by side.
void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

// Has no state, and is thread-safe for that reason, as a codec must be.
class NlohmannCodec final : public outbox::JsonCodec {
 public:
  std::string encode(const outbox::Headers& headers) const override {
    if (headers.empty()) return {};  // stored as NULL
    // Plain ASCII, for readers that guess encodings.
    return Json(headers).dump(-1, ' ', /*ensure_ascii=*/true);
  }

  outbox::Headers decode(std::string_view text) const override {
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return {};
    try {
      const Json value = Json::parse(text);
      if (value.is_null()) return {};
      return value.get<outbox::Headers>();
    } catch (const Json::exception& error) {
      // A row that nobody can read is DEAD, with this as its reason; retrying
      // would not make it readable.
      throw outbox::PermanentError(error.what());
    }
  }
};

void run(const std::string& path) {
  const auto codec = std::make_shared<NlohmannCodec>();
  outbox::Listeners on;
  on.add("Customer", "CustomerRenamed", [](const outbox::Event& event) {
    say("from " + std::string(event.header("source").value_or("nobody")) + ": " +
        Json::parse(event.payload()).at("name").dump());
  });
  outbox::Outbox box{outbox::sqlite::open(path, {.codec = codec}),
                     on,
                     {.dead = {.on_event = [](const outbox::Event& event, std::string_view error) {
                        say("dead: " + event.id() + ": " + std::string(error));
                      }}}};

  auto tx = box.begin();
  tx.write({.type = "CustomerRenamed",
            .aggregate_type = "Customer",
            .aggregate_id = "42",
            .payload = outbox::json(Json{{"name", "Zo\u00eb"}}.dump()),
            .headers = {{"source", "B\u00fcro"}}});
  const auto stored = tx.query_one<std::string>("SELECT headers FROM outbox_event");
  std::cout << "in the table: " << stored << '\n';
  // What a careless program might write.
  tx.execute(
      "INSERT INTO outbox_event (event_id, event_type, aggregate_type, payload, headers)"
      " VALUES ('careless', 'CustomerRenamed', 'Customer', '{}', '{\"source\": 1}')");
  tx.commit();

  box.start();
  if (!box.wait_idle(20s)) throw std::runtime_error("an event was not delivered in time");
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.file("shop.db"));
}
