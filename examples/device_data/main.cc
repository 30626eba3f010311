// Devices report readings; one that is out of bounds raises an alarm in the same transaction.
//
//   example_device_data [folder]      default: a temporary folder
//
// Readings come many at a time: they are written at once, and the analysis gets them in
// batches. Alarms go into a history, behind an inbox: each is entered once, however
// often it is delivered.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "outbox/consumer/inbox.h"
#include "outbox/outbox.h"
#include "outbox/sqlite.h"
#include "outbox/testing.h"
#include "outbox/typed/domain_event.h"
#include "outbox/typed/publisher.h"

namespace {

using namespace std::chrono_literals;

// One string a line, because several workers print side by side.
void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw std::runtime_error(otherwise);
}

constexpr double kHot = 90.0;

struct ReadingReceived {
  std::string device;
  double celsius = 0;
};
constexpr auto describe(outbox::Type<ReadingReceived>) {
  return outbox::event<ReadingReceived>("ReadingReceived")
      .aggregate("Device", &ReadingReceived::device)
      .field("device", &ReadingReceived::device)
      .field("celsius", &ReadingReceived::celsius);
}

struct AlarmRaised {
  std::string device;
  std::string severity;
  std::string message;
};
constexpr auto describe(outbox::Type<AlarmRaised>) {
  return outbox::event<AlarmRaised>("AlarmRaised")
      .aggregate("Device", &AlarmRaised::device)
      .field("device", &AlarmRaised::device)
      .field("severity", &AlarmRaised::severity)
      .field("message", &AlarmRaised::message);
}

// Adds up what it gets; a batch at a time, because that is cheaper than one by one.
class Analysis final : public outbox::BatchListener {
 public:
  std::vector<outbox::Outcome> on_events(std::span<const Item> items) override {
    for (const Item& item : items) {
      const auto reading = outbox::from_event<ReadingReceived>(item.event);
      readings_.fetch_add(1);
      double sum = sum_.load();
      while (!sum_.compare_exchange_weak(sum, sum + reading.celsius)) {
      }
    }
    return std::vector<outbox::Outcome>(items.size(), outbox::Outcome::done());
  }

  std::size_t readings() const { return readings_.load(); }
  double mean() const { return sum_.load() / static_cast<double>(readings_.load()); }

 private:
  std::atomic<std::size_t> readings_{0};
  std::atomic<double> sum_{0};
};

class Devices {
 public:
  Devices(outbox::Outbox& box, outbox::DomainEventPublisher& publisher)
      : box_(box), publisher_(publisher) {}

  void report(const std::string& device, const std::vector<double>& readings) {
    auto tx = box_.begin();
    tx.execute(
        "INSERT INTO devices(id, readings) VALUES (?1, ?2)"
        " ON CONFLICT (id) DO UPDATE SET readings = readings + ?2",
        device, static_cast<std::int64_t>(readings.size()));
    std::vector<ReadingReceived> events;
    for (const double celsius : readings) {
      events.push_back({.device = device, .celsius = celsius});
    }
    publisher_.publish_all(tx, events);
    for (const double celsius : readings) {
      if (celsius <= kHot) continue;
      publisher_.publish(
          tx, AlarmRaised{.device = device,
                          .severity = celsius > kHot + 20 ? "critical" : "warning",
                          .message = std::to_string(static_cast<int>(celsius)) + " degrees"});
    }
    tx.commit();
  }

 private:
  outbox::Outbox& box_;
  outbox::DomainEventPublisher& publisher_;
};

void run(const std::filesystem::path& folder) {
  const auto store = outbox::sqlite::open((folder / "devices.db").string());
  {
    const auto connection = store->connect();
    connection->execute("CREATE TABLE devices(id TEXT PRIMARY KEY, readings INTEGER NOT NULL)", {});
    connection->execute("CREATE TABLE alarms(device TEXT NOT NULL, message TEXT NOT NULL)", {});
  }
  outbox::Inbox inbox{store};
  outbox::Writer history{store};

  const auto analysis = std::make_shared<Analysis>();
  outbox::Listeners on;
  on.add_batch("Device", "ReadingReceived", analysis);
  on.on<AlarmRaised>([&](const AlarmRaised& alarm, const outbox::Event& event) {
    auto tx = history.begin();
    inbox.once(tx, "alarms", event.id(), [&] {
      tx.execute("INSERT INTO alarms(device, message) VALUES (?, ?)", alarm.device, alarm.message);
      say(alarm.severity + " alarm of " + alarm.device + ": " + alarm.message);
    });
    tx.commit();
  });

  outbox::Outbox box{store, on};
  box.start();
  const auto publisher = outbox::transactional_publisher(box.writer());
  Devices devices{box, *publisher};
  for (int i = 0; i < 50; ++i) {
    std::vector<double> readings(20, 20.0);
    if (i == 7) readings.back() = 95.0;
    if (i == 8) readings.back() = 120.0;
    devices.report("boiler-" + std::to_string(i % 5), readings);
  }
  expect(box.wait_idle(20s), "an event was not delivered in time");
  expect(analysis->readings() == 1'000, "readings were lost or counted twice");

  const auto alarms = [&] {
    return store->connect()->query("SELECT count(*) FROM alarms", {}).at(0).get<std::int64_t>(0);
  };
  expect(alarms() == 2, "there should be two alarms");
  const auto replayed =
      store->admin().replay({.status = {outbox::Status::done}, .type = "AlarmRaised"}, 0, 100);
  expect(replayed.rows == 2, "both alarms should be delivered again");
  box.wake();
  expect(box.wait_idle(20s), "an alarm was not delivered again in time");
  expect(alarms() == 2, "an alarm was entered twice");
  say("1000 readings, 2 alarms");
}

}  // namespace

int main(int argc, char** argv) {
  const outbox::testing::TemporaryFolder scratch;
  run(argc > 1 ? argv[1] : scratch.path());
}
