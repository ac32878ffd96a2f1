// Bugs that the simulator can plant, to show that its checker finds them. They are planted outside
// of the real state machines: in the model of the engine, and in the shells that carry messages
// between the machines, by changing what goes in or comes out. The machines have no test hooks.

#ifndef ARIL_SIMULATE_PLANTED_BUG_H_
#define ARIL_SIMULATE_PLANTED_BUG_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace aril::simulate {

enum class PlantedBug {
  kNone,
  // At the runner's shell
  kStaleEpochAccepted,       // a start of an old epoch looks like one of the present
  kBrokenConnectionIgnored,  // what came over it runs on
  kReleaseIgnored,           // attempts are never given up
  kEpochForgotten,           // after a new scheduler's greeting
  // At the gateway's shell
  kStaleAttemptAccepted,   // tokens of old attempts look like those of the present
  kGapsClosed,             // a token after a gap gets the next index
  kDuplicatesRenumbered,   // a repeated token gets the next index
  kDroppedCancel,          // a client's departure is not told to the runner
  kPromptOnlyResubmitted,  // an attempt begins without the tokens so far
  kLostResubmission,       // what failed once is never submitted again
  // At the scheduler's shell
  kUnboundedQueue,     // everything may wait
  kPausedLeaderRules,  // a leader uses the newest epoch that anybody has, not its own
  // In the model of the engine
  kEvictOldest,
  kOffByOneIndex,        // after a resumption
  kPageLeak,             // when a sequence ends
  kPageFreedTwice,       // when a sequence is evicted
  kAdapterInUseDropped,  // for another one's pages
  kTokensRestart,        // max_tokens counts from the resumption
  kFinishForgotten,      // the last token comes without its end
};

// All but kNone.
std::vector<PlantedBug> AllPlantedBugs();
// "stale-epoch-accepted".
std::string Name(PlantedBug bug);
// InvalidArgument with all names.
StatusOr<PlantedBug> ParsePlantedBug(const std::string& name);

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_PLANTED_BUG_H_
