// Frames to and from protobuf.

#ifndef ARIL_CLUSTER_CODEC_H_
#define ARIL_CLUSTER_CODEC_H_

#include <optional>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/frames.h"

namespace aril::v1 {
class Frame;  // generated from aril.proto
}

namespace aril::cluster {

// `now` is what ages are counted to. Pure; thread-safe.
void ToProto(const Frame& frame, TimePoint now, v1::Frame* proto);

// InvalidArgument names the field that is out of range: nothing that comes out of here reaches a
// CHECK of the state machines. A body of a later release is Unimplemented. Pure; thread-safe.
StatusOr<Frame> FromProto(const v1::Frame& proto, TimePoint now);

// What ends the attempt that `proto` asks for, if FromProto refuses it with `why`: one request's
// fault is not the others' on the link. nullopt if it asks for none, or does not say for which.
// Pure; thread-safe.
std::optional<Frame> AnswerToBad(const v1::Frame& proto, const Status& why);

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_CODEC_H_
