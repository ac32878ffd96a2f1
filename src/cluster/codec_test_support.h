// Frames for the codec's tests, and their way over the wire.

#ifndef ARIL_CLUSTER_CODEC_TEST_SUPPORT_H_
#define ARIL_CLUSTER_CODEC_TEST_SUPPORT_H_

#include <functional>
#include <string>
#include <variant>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/frames.h"
#include "gtest/gtest.h"

namespace aril::cluster {

using std::chrono::hours;
using std::chrono::milliseconds;

inline const TimePoint kNow = TimePoint(hours(1000));
// Of a receiver whose clock shows something else.
inline const TimePoint kThere = TimePoint(hours(5));

// As it arrives there.
StatusOr<Frame> OverTheWire(const Frame& frame);

template <typename T>
T RoundTrip(const T& body) {
  const auto frame = OverTheWire(body);
  EXPECT_TRUE(frame.ok()) << frame.status();
  if (!frame.ok()) return T();
  EXPECT_TRUE(std::holds_alternative<T>(*frame)) << NameOf(*frame);
  return std::get<T>(*frame);
}

// The message about a frame that `change` has made bad.
template <typename T>
std::string Complaint(T body, const std::function<void(T&)>& change) {
  change(body);
  const auto frame = OverTheWire(body);
  EXPECT_EQ(frame.status().code(), StatusCode::kInvalidArgument);
  return frame.ok() ? "" : Message(frame.status());
}

Hello RunnerHello();
wire::Submission SomeSubmission();
delivery::StartAttempt SomeStart();
wire::TokenEvent SomeEvent();

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_CODEC_TEST_SUPPORT_H_
