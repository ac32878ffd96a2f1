// What the processes of a cluster tell one another, as plain structs. aril.proto says who says what
// to whom, and how it looks on the wire.

#ifndef ARIL_CLUSTER_FRAMES_H_
#define ARIL_CLUSTER_FRAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/sequence_pages.h"
#include "base/status.h"
#include "delivery/gateway_end.h"
#include "delivery/messages.h"
#include "wire/cluster.h"
#include "wire/messages.h"

namespace aril::cluster {

// Raised when a process of before could not get on with one of after at all. What can be told by a
// field that is there or not is a feature, or nothing.
inline constexpr uint32_t kProtocol = 1;

enum class Role { kGateway, kRunner, kScheduler };
std::string_view NameOf(Role role);

// What is served; the same in all gateways and runners of a cluster.
struct Deployment {
  struct Adapter {
    std::string name;
    std::string digest;  // of its generation

    bool operator==(const Adapter&) const = default;
  };
  std::string base_digest;
  std::vector<Adapter> adapters;  // the index is the AdapterId

  bool operator==(const Deployment&) const = default;
};

// The first difference, for people; "" if there is none. `ours` is this process's.
std::string DescribeDifference(const Deployment& ours, const Deployment& theirs);

// What a runner can hold.
struct RunnerCapacity {
  std::string numeric_class;
  int64_t max_running = 1;
  int64_t pages_total = 1;
  SequencePages pages = {.page_tokens = 1};
  int64_t page_bytes = 1;
  int64_t max_model_len = 1;
  std::vector<int64_t> adapter_pages;  // of the deployment's adapters, in their order
  bool caches_prefixes = true;
};

struct Hello {
  uint32_t protocol = kProtocol;
  std::string version;
  std::vector<std::string> features;  // without which it cannot work
  Role role = Role::kGateway;
  int32_t id = -1;          // of this life of the process; -1: a scheduler
  std::string instance;     // random: tells two of one id apart
  Epoch epoch{0};           // the highest heard of; 0: none
  std::string address;      // of runners, for gateways
  RunnerCapacity runner;    // of runners
  Deployment deployment;    // of gateways and runners
  bool takes_hints = true;  // Prefetch, or LoadAdapters: not of releases before there were any
  // Of runners: a request's format. Not of releases before there were any, nor without a tokenizer.
  bool keeps_formats = true;
  bool keeps_tool_calls = true;  // formats of that kind
  bool keeps_reasoning = true;   // formats behind reasoning
  // Of runners: Pooling, of either kind. Not of releases before there was any.
  bool makes_embeddings = true;
  bool classifies = true;
  bool bounds_reasoning = true;  // of runners: budgets, likewise
  bool masks_tokens = true;      // of runners: SamplingParams' tokens and words, likewise
};

// OK if this release can talk to who says it: FailedPrecondition names what is missing.
Status CheckCompatible(const Hello& hello);

// The scheduler leads, under this epoch.
struct Welcome {
  Epoch epoch;
};

struct RunnerList {
  struct Runner {
    RunnerId runner;
    std::string address;

    bool operator==(const Runner&) const = default;
  };
  std::vector<Runner> runners;
};

struct Refusal {
  SequenceId sequence;
  Duration retry_after{};  // 0: never
  std::string reason;
};

// A hint. Of a sequence that waits: its adapters will probably be wanted there.
struct Prefetch {
  SequenceId sequence;
  RunnerId runner;
};

struct RunnerLeaving {};

// A hint: what attempts will probably need soon.
struct LoadAdapters {
  std::string tenant;
  std::vector<delivery::SharedAdapter> shared;
};

struct TokenEvents {
  std::vector<wire::TokenEvent> events;
};

using Frame = std::variant<Hello, Welcome, RunnerList, wire::Submission, delivery::CloseSequence,
                           wire::Placement, Refusal, wire::RunnerReport, RunnerLeaving,
                           delivery::StartAttempt, delivery::ReleaseAttempt, TokenEvents,
                           delivery::AttemptRefused, Prefetch, LoadAdapters>;

// For messages to people.
std::string_view NameOf(const Frame& frame);

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_FRAMES_H_
