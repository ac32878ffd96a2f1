// What gateways and runners tell one another about attempts.

#ifndef ARIL_DELIVERY_MESSAGES_H_
#define ARIL_DELIVERY_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "wire/cluster.h"
#include "wire/messages.h"

namespace aril::delivery {

// Adapters that have come at run time have ids from here on. The deployment's are indices.
inline constexpr AdapterId kFirstSharedAdapter{1 << 20};

// Most sources of one of them.
inline constexpr int kMaxSources = 4;

// One of them: what a runner that lacks its files needs to get them. A digest has one id.
struct SharedAdapter {
  AdapterId adapter;
  std::string digest;  // of its generation
  // Where its files may be had, in the order in which to try them. The first is the request's
  // tenant's, who may be told what is wrong with it (empty: the tenant has none); the others may
  // be other tenants'.
  std::vector<std::string> sources;

  auto operator<=>(const SharedAdapter&) const = default;
};

// Gateway to runner: begin this attempt (request.attempt) of this sequence.
struct StartAttempt {
  Epoch epoch;  // of the scheduler that placed it
  GatewayId gateway;
  wire::SequenceRequest request;
  int64_t adapter_pages = 0;
  // Tokens that the client has: to be computed after the prompt. The first event's index is their
  // number, and max_tokens counts them.
  std::vector<int32_t> output;
  // Those of request.adapters that are not the deployment's.
  std::vector<SharedAdapter> shared;
};

// Gateway to runner: this attempt is not wanted any more.
struct ReleaseAttempt {
  SequenceId sequence;
  uint32_t attempt = 0;

  bool operator==(const ReleaseAttempt&) const = default;
};

// Runner to gateway: this attempt has not begun, and nothing of it will come.
struct AttemptRefused {
  SequenceId sequence;
  uint32_t attempt = 0;
  std::string reason = {};  // for the client, if nobody else takes it; may be empty
};

}  // namespace aril::delivery

#endif  // ARIL_DELIVERY_MESSAGES_H_
