// A user registers, changes the profile and leaves; two services listen to each step.
//
//   example_user_lifecycle [folder] [transactional|in_memory]
//
// The domain knows events and a publisher, no tables: which publisher it is, the
// configuration says. An event that an older version of the program wrote is brought up to
// date before it is delivered. The last part tests the domain with a publisher that
// only records.
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "outbox/typed/domain_event.h"
#include "outbox/typed/publisher.h"
#include "outbox/typed/recording_publisher.h"

namespace {

using namespace std::chrono_literals;

// One string a line, because several workers print side by side.
void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw std::runtime_error(otherwise);
}

// --- the domain ---

struct UserRegistered {
  std::string user;
  std::string email;
  std::string language;  // since version 2
};
constexpr auto describe(outbox::Type<UserRegistered>) {
  return outbox::event<UserRegistered>("UserRegistered")
      .version(2)
      .aggregate("User", &UserRegistered::user)
      .field("user", &UserRegistered::user)
      .field("email", &UserRegistered::email)
      .field("language", &UserRegistered::language)
      .upcast(1, [](outbox::JsonValue old) {
        old.set("language", "en");
        return old;
      });
}

struct Profile {
  std::string name;
  std::string city;
};
constexpr auto describe(outbox::Type<Profile>) {
  return outbox::object<Profile>().field("name", &Profile::name).field("city", &Profile::city);
}

struct ProfileChanged {
  std::string user;
  Profile before;
  Profile after;
};
constexpr auto describe(outbox::Type<ProfileChanged>) {
  return outbox::event<ProfileChanged>("ProfileChanged")
      .aggregate("User", &ProfileChanged::user)
      .field("user", &ProfileChanged::user)
      .field("before", &ProfileChanged::before)
      .field("after", &ProfileChanged::after);
}

struct UserLeft {
  std::string user;
};
constexpr auto describe(outbox::Type<UserLeft>) {
  return outbox::event<UserLeft>("UserLeft")
      .aggregate("User", &UserLeft::user)
      .field("user", &UserLeft::user);
}

class Users {
 public:
  explicit Users(outbox::DomainEventPublisher& publisher) : publisher_(publisher) {}

  void join(const std::string& user) {
    publisher_.publish(
        UserRegistered{.user = user, .email = user + "@example.com", .language = "de"});
  }
  void move(const std::string& user, const std::string& from, const std::string& to) {
    publisher_.publish(ProfileChanged{
        .user = user, .before = {.name = user, .city = from}, .after = {.name = user, .city = to}});
  }
  void leave(const std::string& user) { publisher_.publish(UserLeft{.user = user}); }

 private:
  outbox::DomainEventPublisher& publisher_;
};

// --- those who listen ---

outbox::Listeners services() {
  outbox::Listeners on;
  on.fan_out<UserRegistered>(
      {outbox::handler<UserRegistered>("mail",
                                       [](const UserRegistered& registered) {
                                         say("mail: welcome (" + registered.language + ") to " +
                                             registered.email);
                                       }),
       outbox::handler<UserRegistered>("recommendations", [](const UserRegistered& registered) {
         say("recommendations: a new model for " + registered.user);
       })});
  on.fan_out<ProfileChanged>(
      {outbox::handler<ProfileChanged>("mail",
                                       [](const ProfileChanged& changed) {
                                         say("mail: " + changed.user +
                                             ", your profile was changed");
                                       }),
       outbox::handler<ProfileChanged>("recommendations", [](const ProfileChanged& changed) {
         say("recommendations: " + changed.user + " went from " + changed.before.city + " to " +
             changed.after.city);
       })});
  on.on<UserLeft>([](const UserLeft& left) { say("mail: goodbye, " + left.user); });
  return on;
}

void live(const std::filesystem::path& folder, const std::string& configured) {
  outbox::Outbox box{outbox::sqlite::open((folder / "users.db").string()), services()};
  box.start();
  const auto publisher =
      outbox::make_publisher(outbox::publisher_kind(configured), box.writer(), services());
  Users users{*publisher};

  // The code that serves a request says for whom: the headers of all its events have it.
  const outbox::RequestScope request{{.request_id = "req-1", .operator_id = "support"}};
  auto tx = box.begin();
  users.join("ada");
  users.move("ada", "London", "Turin");
  users.leave("ada");
  tx.commit();
  expect(box.wait_idle(20s), "an event was not delivered in time");
}

// What an older version of this program left in the table.
void old_event(const std::filesystem::path& folder) {
  outbox::Outbox box{outbox::sqlite::open((folder / "users.db").string()), services()};
  box.start();
  auto tx = box.begin();
  tx.write({.type = "UserRegistered",
            .aggregate_type = "User",
            .aggregate_id = "old",
            .payload = outbox::json(R"({"user":"old","email":"old@example.com"})")});
  tx.commit();
  expect(box.wait_idle(20s), "an event was not delivered in time");
}

// How the domain is tested, without a database.
void test_of_the_domain() {
  outbox::testing::RecordingPublisher recorded;
  Users users{recorded};
  users.move("ada", "London", "Turin");
  const auto changes = recorded.events<ProfileChanged>();
  expect(changes.size() == 1 && changes.front().after.city == "Turin", "the domain is wrong");
  say("the domain publishes what it should");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string configured = argc > 2 ? argv[2] : "transactional";
  const outbox::testing::TemporaryFolder scratch;
  const std::filesystem::path folder = argc > 1 ? argv[1] : scratch.path();
  live(folder, configured);
  old_event(folder);
  test_of_the_domain();
}
