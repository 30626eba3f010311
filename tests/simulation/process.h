// A simulated process with an engine, from its start to its end.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/outbox.h"
#include "simulation/client_store.h"
#include "simulation/environment.h"

namespace outbox::simulation {

class Process final : public Network, public std::enable_shared_from_this<Process> {
 public:
  Process(Environment& environment, int id) : environment_(environment), id_(id) {}

  void start();
  void stop() { stopping_ = true; }
  void kill();

  // Writes once more, after everything else.
  void write_again() { again_ = true; }

  int id() const { return id_; }
  bool alive() const override { return !ended_ && !killed_; }
  bool ended() const { return ended_; }
  bool crashes() const { return crashes_ && alive(); }
  bool wrote_all() const { return writing_ == 0; }
  bool wrote_again() const { return wrote_again_; }
  std::size_t in_flight() const { return box_ == nullptr ? 0 : box_->in_flight(); }
  SimulatedClock& clock() { return clock_; }

  void request(std::string_view call) override;
  bool loses_answer(std::string_view call) override;
  void renewed() override { environment_.judge->renewed(id_, environment_.scheduler.now()); }

 private:
  friend class SimulatedBatchListener;

  void run();
  Listeners listeners();
  bool goes_wrong(std::string_view call, std::uint32_t times);
  void write(int writer, int transactions);
  bool write_transaction(const std::string& prefix);
  void write_events(Transaction& transaction, const std::string& prefix);
  Draft draw_event(const std::string& id);
  Outcome deliver(const Event& event, const Delivery& delivery);
  std::vector<Outcome> deliver_batch(std::span<const BatchListener::Item> items);
  Outcome handle(const Event& event, const Delivery& delivery, const std::string& handler);
  Outcome draw_outcome(const Event& event, int attempt);
  void crash();
  void say(const std::string& what) const;

  Environment& environment_;
  const int id_;
  SimulatedClock clock_;
  std::shared_ptr<Store> store_;
  Outbox* box_ = nullptr;
  bool stopping_ = false;
  bool again_ = false;
  bool wrote_again_ = false;
  bool killed_ = false;
  bool crashes_ = false;
  bool ended_ = false;
  int writing_ = 0;
};

// The handlers of a fan-out.
const std::vector<std::string>& handlers();

}  // namespace outbox::simulation
