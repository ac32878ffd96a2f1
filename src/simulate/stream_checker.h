// What clients see, checked token by token, and the first violation of anything.

#ifndef ARIL_SIMULATE_STREAM_CHECKER_H_
#define ARIL_SIMULATE_STREAM_CHECKER_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "delivery/messages.h"
#include "wire/messages.h"

namespace aril::simulate {

enum class StreamEnd { kLive, kFinished, kError, kCancelled, kBroken };

// A client's request and what has come of it.
struct ClientStream {
  int64_t num_prompt = 0;
  int64_t max_tokens = 0;
  AdapterId adapter;
  int64_t adapter_pages = 0;
  int gateway_node = 0;
  int64_t num_tokens = 0;  // received
  StreamEnd end = StreamEnd::kLive;
  uint32_t attempt = 0;                           // begun last, by the gateway
  RunnerId runner;                                // of it
  TimePoint opened, started, first_token, ended;  // started: the first attempt was begun
};

// Not thread-safe.
class StreamChecker {
 public:
  // The first one stays.
  void Violate(TimePoint now, const std::string& what);
  const std::string& violation() const { return violation_; }

  void OnOpen(const wire::SequenceRequest& request, int64_t adapter_pages, int gateway_node,
              TimePoint now);
  // The gateway begins an attempt: with the tokens that the client has, neither more nor less.
  void OnStart(const delivery::StartAttempt& start, RunnerId runner, TimePoint now);
  // A runner sends this: the token must be that of its index.
  void OnSent(const wire::TokenEvent& event, TimePoint now);
  // A client gets this. `sent_attempt`: of the message that it came in; 0: none.
  void OnDelivered(const wire::TokenEvent& event, uint32_t sent_attempt, TimePoint now);
  void OnEnd(SequenceId sequence, StreamEnd end, TimePoint now);

  const std::map<SequenceId, ClientStream>& streams() const { return streams_; }
  int64_t Count(StreamEnd end) const { return counts_[static_cast<size_t>(end)]; }
  int64_t num_live() const { return static_cast<int64_t>(streams_.size()) - num_ended_; }
  // Tokens that clients have got.
  int64_t num_tokens() const { return num_tokens_; }
  // What happened, folded: equal for equal runs.
  uint64_t digest() const { return digest_; }
  void Fold(uint64_t value);

 private:
  std::map<SequenceId, ClientStream> streams_;
  int64_t counts_[5] = {};
  int64_t num_ended_ = 0;
  int64_t num_tokens_ = 0;
  std::string violation_;
  uint64_t digest_ = 0;
};

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_STREAM_CHECKER_H_
