#include "harness/verdict.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace outbox::harness {
namespace {

constexpr std::size_t kExamples = 10;

std::string describe(const Message& arrival, std::size_t index) {
  return arrival.id + " (aggregate '" + arrival.aggregate + "', number " +
         std::to_string(arrival.number) + ", epoch " + std::to_string(arrival.epoch) +
         ", process " + std::to_string(arrival.process) + ", attempt " +
         std::to_string(arrival.attempt) + ", arrival " + std::to_string(index) + ")";
}

using Figure = std::pair<std::string_view, std::size_t Verdict::*>;
constexpr std::array<Figure, 16> kFigures{
    {{"committed", &Verdict::committed},
     {"delivered", &Verdict::delivered},
     {"lost", &Verdict::lost},
     {"ghosts", &Verdict::ghosts},
     {"commits_lost", &Verdict::commits_lost},
     {"ghosts_of_lost_commits", &Verdict::ghosts_of_lost_commits},
     {"misreported", &Verdict::misreported},
     {"duplicates", &Verdict::duplicates},
     {"duplicate_bound", &Verdict::duplicate_bound},
     {"order_breaks", &Verdict::order_breaks},
     {"double_owners", &Verdict::double_owners},
     {"garbled", &Verdict::garbled},
     {"early", &Verdict::early},
     {"longest_pause_ms", &Verdict::longest_pause_ms},
     {"dead", &Verdict::dead},
     {"pending", &Verdict::pending}}};

// Works on one run.
class Judge {
 public:
  Judge(std::span<const Committed> committed, const Expected& expected,
        std::span<const Attempt> attempts)
      : committed_(committed), expected_(expected), attempts_(attempts) {
    verdict_.committed = committed.size();
    verdict_.duplicate_bound = expected.duplicate_bound;
    verdict_.may_lose_commits = expected.may_lose_commits;
    seen_.reserve(committed.size());
    for (const Committed& row : committed) seen_.emplace(row.id, Seen{.row = &row});
    for (const Attempt& attempt : attempts) {
      if (attempt.told == Told::failed) continue;
      tried_.insert(attempt.ids.begin(), attempt.ids.end());
    }
  }

  Verdict judge(std::span<const Message> arrivals) {
    for (const Attempt& attempt : attempts_) take_attempt(attempt);
    std::int64_t before = 0;
    for (const Message& arrival : arrivals) {
      if (before > 0 && arrival.at > before) {
        const auto pause = static_cast<std::size_t>((arrival.at - before) / 1'000);
        verdict_.longest_pause_ms = std::max(verdict_.longest_pause_ms, pause);
      }
      before = arrival.at;
      take(arrival);
    }
    for (const Committed& row : committed_) {
      if (seen_.at(row.id).times > 0) continue;
      if (expected_.pending.contains(row.id)) {
        ++verdict_.pending;
        continue;
      }
      ++verdict_.lost;
      example("lost: " + row.id + " (aggregate '" + row.aggregate + "', number " +
              std::to_string(row.number) + ") was committed and never arrived");
    }
    return std::move(verdict_);
  }

 private:
  struct Seen {
    const Committed* row = nullptr;  // null: nobody committed it
    std::size_t times = 0;
  };

  struct Owner {
    int process = 0;
    bool disputed = false;
  };

  void example(std::string text) {
    if (verdict_.examples.size() < kExamples) verdict_.examples.push_back(std::move(text));
  }

  // It happened as a whole or not at all, and its writer was told so.
  void take_attempt(const Attempt& attempt) {
    const auto there = static_cast<std::size_t>(
        std::count_if(attempt.ids.begin(), attempt.ids.end(),
                      [this](const std::string& id) { return seen_.contains(id); }));
    const std::string whole =
        std::to_string(there) + " of " + std::to_string(attempt.ids.size()) + " events are there";
    if (there > 0 && (there < attempt.ids.size() || attempt.told == Told::failed)) {
      ++verdict_.misreported;
      example("misreported: of the transaction of " + attempt.ids.front() + " " + whole +
              (attempt.told == Told::failed ? ", and its writer was told that it failed" : ""));
    }
    if (there > 0 || attempt.ids.empty() || attempt.told != Told::committed) return;
    ++verdict_.commits_lost;
    if (!expected_.may_lose_commits) {
      example("commit lost: the database acknowledged the transaction of " + attempt.ids.front() +
              ", of which " + whole);
    }
  }

  void take(const Message& arrival) {
    ++index_;
    take_owner(arrival);
    Seen& event = seen_.try_emplace(arrival.id).first->second;
    const bool first = event.times++ == 0;
    if (!first) ++verdict_.duplicates;
    if (event.row == nullptr) {
      if (first) take_ghost(arrival);
      return;
    }
    compare(arrival, *event.row);
    if (!first) return;
    ++verdict_.delivered;
    if (expected_.ordered && event.row->ordered) take_in_order(arrival, *event.row);
  }

  // An epoch is one process's. Where commits are lost, so are registrations, and their
  // epochs are given out again.
  void take_owner(const Message& arrival) {
    if (!expected_.epochs || expected_.may_lose_commits) return;
    if (arrival.epoch == 0 || arrival.process == 0) return;
    Owner& owner = owners_.try_emplace(arrival.epoch, Owner{arrival.process, false}).first->second;
    if (owner.process == arrival.process || owner.disputed) return;
    owner.disputed = true;
    ++verdict_.double_owners;
    example("two owners: " + describe(arrival, index_) + " came in an epoch of process " +
            std::to_string(owner.process));
  }

  void take_ghost(const Message& arrival) {
    if (expected_.may_lose_commits && tried_.contains(arrival.id)) {
      ++verdict_.ghosts_of_lost_commits;
      return;
    }
    ++verdict_.ghosts;
    example("ghost: " + describe(arrival, index_) + " was never committed");
  }

  void compare(const Message& arrival, const Committed& row) {
    if (arrival.aggregate != row.aggregate || arrival.number != row.number) {
      ++verdict_.garbled;
      example("garbled: " + describe(arrival, index_) + " was committed as aggregate '" +
              row.aggregate + "', number " + std::to_string(row.number));
    }
    if (arrival.at < row.not_before) {
      ++verdict_.early;
      example("early: " + describe(arrival, index_) + " came " +
              std::to_string(row.not_before - arrival.at) + " us before its time");
    }
  }

  void take_in_order(const Message& arrival, const Committed& row) {
    std::int64_t& last = reached_.try_emplace(row.aggregate, row.number).first->second;
    if (row.number < last) {
      ++verdict_.order_breaks;
      example("order break: " + describe(arrival, index_) + " came after number " +
              std::to_string(last));
    } else {
      last = row.number;
    }
  }

  // Constant after construction.
  const std::span<const Committed> committed_;
  const Expected& expected_;
  const std::span<const Attempt> attempts_;

  Verdict verdict_;
  std::unordered_map<std::string_view, Seen> seen_;
  std::unordered_set<std::string_view> tried_;  // what may have been committed for a while

  // The greatest number of each aggregate that has arrived so far.
  std::unordered_map<std::string_view, std::int64_t> reached_;
  std::unordered_map<std::int64_t, Owner> owners_;  // of epochs
  std::size_t index_ = 0;
};

}  // namespace

bool Verdict::clean() const {
  return lost == 0 && ghosts == 0 && duplicates <= duplicate_bound && order_breaks == 0 &&
         double_owners == 0 && garbled == 0 && early == 0 && dead == 0 && pending == 0 &&
         misreported == 0 && (commits_lost == 0 || may_lose_commits);
}

std::size_t Verdict::figure(std::string_view name) const {
  for (const auto& [known, member] : kFigures) {
    if (known == name) return this->*member;
  }
  throw std::invalid_argument("the verdict has no figure '" + std::string(name) + "'");
}

Verdict judge(std::span<const Committed> committed, std::span<const Message> arrivals,
              const Expected& expected, std::span<const Attempt> attempts) {
  return Judge(committed, expected, attempts).judge(arrivals);
}

std::ostream& operator<<(std::ostream& out, const Verdict& verdict) {
  for (const auto& [name, member] : kFigures) {
    std::string label(name);
    for (char& c : label) {
      if (c == '_') c = ' ';
    }
    out << std::left << std::setw(24) << label << std::right << std::setw(10) << verdict.*member
        << '\n';
  }
  for (const std::string& example : verdict.examples) out << "  " << example << '\n';
  return out;
}

}  // namespace outbox::harness
