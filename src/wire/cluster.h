// Plain structs of a cluster: what gateways, scheduler and runners tell one another about placing
// sequences. Counts, hashes and ids only; the tokens themselves go between gateway and runner.
//
// An attempt is one placement of a sequence on a runner. Only the sequence's gateway begins one, so
// numbers of attempts are unique whatever schedulers do: a placement names the attempt that it
// would be, and the gateway obeys if that is the one after its present one (a compare-and-swap).

#ifndef ARIL_WIRE_CLUSTER_H_
#define ARIL_WIRE_CLUSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "wire/prefix_marks.h"

namespace aril {

// One life of a runner's process: a restarted one has another id.
using RunnerId = StrongId<struct RunnerTag>;
// One life of a gateway's process.
using GatewayId = StrongId<struct GatewayTag>;
// The reign of one scheduler. Elections give ascending numbers; commands of lower ones are refused.
using Epoch = StrongId<struct EpochTag, int64_t>;

}  // namespace aril

namespace aril::wire {

// What a runner is. Pages have one size in all runners of a deployment: they serve one base model.
struct RunnerInfo {
  RunnerId runner;
  // Runners of one class give the same text for the same tokens; preferred when sequences move.
  std::string numeric_class;
  int64_t max_running = 32;  // sequences in a batch (max_num_seqs)
  int64_t pages_total = 0;
  bool caches_prefixes = true;  // prompts that begin alike are computed once
};

// Pending: accepted, never started. Evicted: gave way to older ones, resumes when there is room.
// Loading: its adapter is being fetched, and nothing is computed for it yet.
enum class RunnerSequenceState { kPending, kRunning, kEvicted, kLoading };

struct RunnerSequence {
  SequenceId sequence;
  GatewayId gateway;
  uint32_t attempt = 0;
  RunnerSequenceState state = RunnerSequenceState::kPending;
  AdapterId adapter;
  int64_t adapter_pages = 0;
  int32_t num_tokens = 0;     // prompt and output so far
  int32_t num_generated = 0;  // in this attempt
  int32_t priority = 0;
  TimePoint arrival;  // of the request
};

// The whole state of a runner after a step, not what changed: a lost or repeated report does no
// harm, and a new scheduler learns from it all that an old one knew.
struct RunnerReport {
  RunnerId runner;
  int64_t number = 0;  // ascending
  // Pages that no running sequence uses, itself or as its adapter's, or has been promised.
  int64_t available_pages = 0;
  std::vector<RunnerSequence> sequences;
};

// Gateway to scheduler: this sequence waits to be placed. Idempotent: repeated after a while
// without an answer, and to every new scheduler.
struct Submission {
  SequenceId sequence;
  GatewayId gateway;
  std::string tenant = "default";
  AdapterId adapter = kBaseModel;
  int64_t adapter_pages = 0;  // 0 for the base model
  int32_t num_tokens = 0;     // prompt and output so far
  // Tokens already sent to the client: such a sequence is not aborted for having waited too long.
  int32_t num_generated = 0;
  int32_t max_tokens = 0;  // prompt and output at the end, at most
  int32_t priority = 0;    // as of the request
  // Attempts made so far; 0: none yet.
  uint32_t attempt = 0;
  // Of the request, which keeps its place in the queue over all attempts.
  TimePoint arrival;
  // Where the last attempt failed; avoided as long as there are others.
  RunnerId failed_on;
  // Not the first sequence of its request, which is judged for all of them.
  bool is_sibling = false;
  // Of what has been sent to the client; empty: of any class.
  std::string numeric_class;
  // Of the prompt, by MarkPrefixes.
  std::vector<PrefixMark> prefix;
};

// Scheduler to gateway.
struct Placement {
  Epoch epoch;
  SequenceId sequence;
  GatewayId gateway;
  uint32_t attempt = 0;  // the one this would be
  RunnerId runner;
};

}  // namespace aril::wire

#endif  // ARIL_WIRE_CLUSTER_H_
