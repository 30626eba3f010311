// Makes a failing history simpler.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>

#include "simulation/choices.h"

namespace outbox::simulation {

// Shorter answers with more zeros that still fail as `fails` says, found by asking it no more
// than `budget` times.
inline Choices::Answers shrink(Choices::Answers answers,
                               const std::function<bool(const Choices::Answers&)>& fails,
                               std::size_t budget) {
  std::size_t asked = 0;
  const auto try_it = [&](const Choices::Answers& candidate) {
    if (candidate == answers || asked >= budget) return false;
    ++asked;
    if (!fails(candidate)) return false;
    answers = candidate;
    return true;
  };
  const auto without_trailing_zeros = [](Choices::Answers list) {
    while (!list.empty() && list.back() == 0) list.pop_back();
    return list;
  };
  for (bool better = true; better && asked < budget;) {
    better = false;
    // The end, then parts: cut out, or made plain. Large parts first.
    for (std::size_t part = std::max<std::size_t>(answers.size() / 2, 1);; part /= 2) {
      for (std::size_t at = 0; at < answers.size() && asked < budget; at += part) {
        const auto from = answers.begin() + static_cast<std::ptrdiff_t>(at);
        const auto to =
            answers.begin() + static_cast<std::ptrdiff_t>(std::min(at + part, answers.size()));
        if (std::all_of(from, to, [](auto answer) { return answer == 0; })) continue;
        Choices::Answers plain = answers;
        std::fill(plain.begin() + static_cast<std::ptrdiff_t>(at),
                  plain.begin() + (to - answers.begin()), 0U);
        if (try_it(without_trailing_zeros(plain))) {
          better = true;
          continue;
        }
        Choices::Answers cut = answers;
        cut.erase(cut.begin() + static_cast<std::ptrdiff_t>(at),
                  cut.begin() + (to - answers.begin()));
        if (try_it(without_trailing_zeros(cut))) better = true;
      }
      if (part == 1 || asked >= budget) break;
    }
  }
  return answers;
}

}  // namespace outbox::simulation
