// What gateways and runners tell one another about attempts.

#ifndef ARIL_DELIVERY_MESSAGES_H_
#define ARIL_DELIVERY_MESSAGES_H_

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "wire/cluster.h"
#include "wire/messages.h"

namespace aril::delivery {

// Gateway to runner: begin this attempt (request.attempt) of this sequence.
struct StartAttempt {
  Epoch epoch;  // of the scheduler that placed it
  GatewayId gateway;
  wire::SequenceRequest request;
  int64_t adapter_pages = 0;
  // Tokens that the client has: to be computed after the prompt. The first event's index is their
  // number, and max_tokens counts them.
  std::vector<int32_t> output;
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
};

}  // namespace aril::delivery

#endif  // ARIL_DELIVERY_MESSAGES_H_
