// Frames to and from protobuf.

#ifndef ARIL_CLUSTER_CODEC_H_
#define ARIL_CLUSTER_CODEC_H_

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

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_CODEC_H_
