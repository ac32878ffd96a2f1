// Takes the body of a request as it arrives, instead of the request itself.

#ifndef ARIL_GATEWAY_BODY_SINK_H_
#define ARIL_GATEWAY_BODY_SINK_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "gateway/api_error.h"
#include "gateway/http_message.h"

namespace aril::gateway {

// On the server's thread.
class BodySink {
 public:
  virtual ~BodySink() = default;
  // Calls `done` on the server's thread when the bytes have been dealt with. The next ones, and the
  // end of the body, come after that.
  virtual void Append(std::string bytes, std::function<void()> done) = 0;
  // What follows makes no difference any more: the request is handed over as it is.
  virtual bool has_failed() const = 0;
  // The rest will never come. `self` is the sink, and is let go of where what it has can be removed
  // without holding up the server's thread.
  virtual void Abandon(std::shared_ptr<BodySink> self) = 0;
};

// What a server does with the body of a request whose head is there.
struct BodyPlan {
  std::shared_ptr<BodySink> sink;   // null: into the request, within the server's own limits
  size_t max_bytes = 0;             // with a sink; else 0: the server's own limit
  Duration timeout = {};            // with a sink, for all of the body
  std::optional<ApiError> refusal;  // answered at once, and the body is not read
};
using BodyPlanner = std::function<BodyPlan(const HttpRequest& head)>;

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_BODY_SINK_H_
