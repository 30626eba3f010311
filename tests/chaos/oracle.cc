#include "oracle.h"

#include <array>
#include <iomanip>
#include <ostream>
#include <stdexcept>
#include <unordered_map>
#include <utility>

namespace outbox::chaos {
namespace {

constexpr std::size_t kExamples = 10;

std::string named(const Arrival& arrival, std::size_t index) {
  return arrival.id + " (aggregate '" + arrival.aggregate + "', number " +
         std::to_string(arrival.number) + ", epoch " + std::to_string(arrival.epoch) +
         ", attempt " + std::to_string(arrival.attempt) + ", arrival " + std::to_string(index) +
         ")";
}

using Figure = std::pair<std::string_view, std::size_t Verdict::*>;
constexpr std::array<Figure, 11> kFigures{{{"committed", &Verdict::committed},
                                           {"delivered", &Verdict::delivered},
                                           {"lost", &Verdict::lost},
                                           {"ghosts", &Verdict::ghosts},
                                           {"duplicates", &Verdict::duplicates},
                                           {"duplicate_bound", &Verdict::duplicate_bound},
                                           {"order_breaks", &Verdict::order_breaks},
                                           {"garbled", &Verdict::garbled},
                                           {"early", &Verdict::early},
                                           {"dead", &Verdict::dead},
                                           {"pending", &Verdict::pending}}};

}  // namespace

bool Verdict::clean() const {
  return lost == 0 && ghosts == 0 && duplicates <= duplicate_bound && order_breaks == 0 &&
         garbled == 0 && early == 0 && dead == 0 && pending == 0;
}

std::size_t Verdict::figure(std::string_view name) const {
  for (const auto& [known, member] : kFigures) {
    if (known == name) return this->*member;
  }
  throw std::invalid_argument("the verdict has no figure '" + std::string(name) + "'");
}

Verdict judge(std::span<const Committed> committed, std::span<const Arrival> arrivals,
              const Expected& expected) {
  Verdict verdict{.committed = committed.size(), .duplicate_bound = expected.duplicate_bound};
  const auto example = [&verdict](std::string text) {
    if (verdict.examples.size() < kExamples) verdict.examples.push_back(std::move(text));
  };

  struct Seen {
    const Committed* row = nullptr;  // null: nobody committed it
    std::size_t times = 0;
  };
  std::unordered_map<std::string_view, Seen> seen;
  seen.reserve(committed.size());
  for (const Committed& row : committed) seen.emplace(row.id, Seen{.row = &row});

  // The greatest number of each aggregate that has arrived so far.
  std::unordered_map<std::string_view, std::int64_t> reached;
  std::size_t index = 0;
  for (const Arrival& arrival : arrivals) {
    ++index;
    Seen& event = seen.try_emplace(arrival.id).first->second;
    const bool first = event.times++ == 0;
    if (!first) ++verdict.duplicates;
    if (event.row == nullptr) {
      if (!first) continue;
      ++verdict.ghosts;
      example("ghost: " + named(arrival, index) + " was never committed");
      continue;
    }
    const Committed& row = *event.row;
    if (arrival.aggregate != row.aggregate || arrival.number != row.number) {
      ++verdict.garbled;
      example("garbled: " + named(arrival, index) + " was committed as aggregate '" +
              row.aggregate + "', number " + std::to_string(row.number));
    }
    if (arrival.at < row.not_before) {
      ++verdict.early;
      example("early: " + named(arrival, index) + " came " +
              std::to_string(row.not_before - arrival.at) + " us before its time");
    }
    if (!first) continue;
    ++verdict.delivered;
    if (!expected.ordered || !row.ordered) continue;
    std::int64_t& last = reached.try_emplace(row.aggregate, row.number).first->second;
    if (row.number < last) {
      ++verdict.order_breaks;
      example("order break: " + named(arrival, index) + " came after number " +
              std::to_string(last));
    } else {
      last = row.number;
    }
  }

  for (const Committed& row : committed) {
    if (seen.at(row.id).times > 0) continue;
    ++verdict.lost;
    example("lost: " + row.id + " (aggregate '" + row.aggregate + "', number " +
            std::to_string(row.number) + ") was committed and never arrived");
  }
  return verdict;
}

std::ostream& operator<<(std::ostream& out, const Verdict& verdict) {
  for (const auto& [name, member] : kFigures) {
    std::string label(name);
    for (char& c : label) {
      if (c == '_') c = ' ';
    }
    out << std::left << std::setw(18) << label << std::right << std::setw(10) << verdict.*member
        << '\n';
  }
  for (const std::string& example : verdict.examples) out << "  " << example << '\n';
  return out;
}

}  // namespace outbox::chaos
