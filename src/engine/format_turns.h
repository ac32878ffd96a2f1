// In what turns sequences with a format find which tokens may follow, and how long a step waits.
//
// Finding that can take long where a format is met for the first time, or was made to. A step has a
// bounded time for it, in work that is counted rather than measured. Tenants take turns: whose turn
// does not come sits the step out, which changes nothing of its tokens.

#ifndef ARIL_ENGINE_FORMAT_TURNS_H_
#define ARIL_ENGINE_FORMAT_TURNS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/sequence.h"

namespace aril {

// Used by one thread.
class FormatTurns {
 public:
  // Of each thread in a round, as grammar/automaton.h counts it: some 15 ms. What it begins with it
  // ends, which may be 30 ms more.
  static constexpr int64_t kWork = 1'500'000;

  // What reading drafts may take in a step, of all sequences together.
  static constexpr int64_t kDraftWork = kWork / 8;

  explicit FormatTurns(int64_t work = kWork) : work_(work) {}

  // A round: sequences with matchers find what follows (TokenMatcher::Find), those before all
  // others for which somebody has found it already. At least one of the others gets on.
  void Run(std::span<Sequence* const> sequences, ThreadPool& threads);

 private:
  // The first sequence of each tenant, then the second ones, and so on.
  std::vector<Sequence*> InTurns(std::vector<Sequence*> sequences) const;

  const int64_t work_;
  std::map<std::string, uint64_t> last_turns_;  // by tenant, of those in the last round
  uint64_t turn_ = 0;
};

}  // namespace aril

#endif  // ARIL_ENGINE_FORMAT_TURNS_H_
