// The gateway's end of the requests in flight: it owns each sequence's prompt, the tokens that its
// client has, and the number of its attempt, so that anything else may die and be replaced.
//
// Exactly once: of what runners send, only (the current attempt, the next index) is accepted. A
// token of another attempt is answered with a release, a repeated one is dropped, and a gap ends
// the attempt: the next one begins with the tokens so far. So the stream has no gap and no
// duplicate, whatever is lost, late or repeated.
//
// A pure state machine: what happens goes in, with the time; what is to be done comes out.

#ifndef ARIL_DELIVERY_GATEWAY_END_H_
#define ARIL_DELIVERY_GATEWAY_END_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "delivery/messages.h"

namespace aril::delivery {

struct GatewayEndOptions {
  GatewayId gateway;
  // Failed attempts (a runner that died or refused, a broken connection, a gap) with no token
  // between them before the client gets an error. Migrations are none.
  int32_t max_failures = 5;
  // After the first of them the sequence is submitted again at once, after the others when this has
  // passed, then twice this, and so on: what is broken may be mended, a new scheduler be heard of.
  Duration retry_after = std::chrono::milliseconds(500);
  // A submission without an answer is repeated.
  Duration resubmit_after = std::chrono::seconds(2);
  // An attempt of which nothing is heard has failed. More than the longest prompt takes, or waiting
  // for pages on a healthy runner: whatever breaks a connection is noticed by other means.
  Duration silence_limit = std::chrono::minutes(10);
  // What has not begun fails with Unavailable when there has been no scheduler for this long: its
  // lease and an election, with an etcd in between that has to start again.
  Duration max_without_scheduler = std::chrono::seconds(30);
  size_t max_live = 65'536;
};

// To the scheduler.
struct CloseSequence {
  SequenceId sequence;
};
struct StartOn {
  RunnerId runner;
  StartAttempt start;
};
struct ReleaseOn {
  RunnerId runner;
  ReleaseAttempt release;
};
// To the client; the last one has `finish`.
struct Deliver {
  wire::TokenEvent event;
};

using Effect = std::variant<wire::Submission, CloseSequence, StartOn, ReleaseOn, Deliver>;
using Effects = std::vector<Effect>;

// What placing needs beyond the request.
struct SequenceCosts {
  int64_t adapter_pages = 0;
  std::vector<wire::PrefixMark> prefix;  // of the prompt
};

// Not thread-safe. `now` must not fall.
class GatewayEnd {
 public:
  explicit GatewayEnd(const GatewayEndOptions& options) : options_(options) {}

  // A new sequence: its id must be none that this gateway has live, its attempt 0.
  // ResourceExhausted when as many are live as may be.
  StatusOr<Effects> Open(wire::SequenceRequest request, SequenceCosts costs, TimePoint now);
  // Its client has gone. Unknown: no effect.
  Effects Cancel(SequenceId sequence);

  Effects OnPlacement(const wire::Placement& placement, TimePoint now);
  // The scheduler will not place it: `status` goes to the client, unless tokens have gone before it
  // or an attempt is running.
  Effects OnRefused(SequenceId sequence, const Status& status, TimePoint now);
  // There is a scheduler of this epoch, or none (nullopt). A new one is told what waits.
  Effects OnScheduler(std::optional<Epoch> epoch, TimePoint now);

  Effects OnToken(RunnerId runner, const wire::TokenEvent& event, TimePoint now);
  Effects OnAttemptRefused(RunnerId runner, const AttemptRefused& refused, TimePoint now);
  // The connection to it is broken: nothing more comes of the attempts there.
  Effects OnRunnerBroken(RunnerId runner, TimePoint now);
  // Several times a second.
  Effects OnTick(TimePoint now);

  size_t num_live() const { return live_.size(); }
  // A live one's, or null.
  const wire::SequenceRequest* Find(SequenceId sequence) const;
  // Of them, those with an attempt on a runner. Linear in their number.
  size_t CountPlaced() const;
  // There has been no scheduler for so long that new sequences fail.
  bool IsAbandoned(TimePoint now) const;
  Epoch epoch() const { return epoch_; }

 private:
  struct Live {
    wire::SequenceRequest request;
    SequenceCosts costs;
    std::vector<int32_t> output;
    uint32_t attempt = 0;
    int32_t num_failures = 0;  // since its last token
    RunnerId runner;           // of the attempt; invalid: it waits to be placed
    RunnerId failed_on;
    TimePoint heard;                    // of the attempt, or submitted at
    std::optional<TimePoint> retry_at;  // it is not submitted before
  };

  wire::Submission SubmissionOf(const Live& live) const;
  void Submit(Live& live, TimePoint now, Effects& effects);
  // The current attempt is over; another one, or an error, with the reason if there is one to say.
  void FailAttempt(Live& live, const std::string& reason, TimePoint now, Effects& effects);
  void End(Live& live, wire::TokenEvent last, Effects& effects);
  void EndWithError(Live& live, const Status& status, Effects& effects);

  const GatewayEndOptions options_;
  std::unordered_map<SequenceId, Live> live_;
  Epoch epoch_;  // the highest heard of
  bool has_scheduler_ = false;
  std::optional<TimePoint> without_scheduler_since_;
};

}  // namespace aril::delivery

#endif  // ARIL_DELIVERY_GATEWAY_END_H_
