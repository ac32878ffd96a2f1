// Frames of a cluster from any bytes: what is accepted comes out of a second conversion as it went
// in.

#include <string>

#include "base/check.h"
#include "cluster/aril.pb.h"
#include "cluster/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  aril::v1::Frame proto;
  if (!proto.ParseFromArray(data, static_cast<int>(size))) return 0;
  const aril::TimePoint now = aril::TimePoint(std::chrono::hours(24 * 365));
  const auto frame = aril::cluster::FromProto(proto, now);
  if (!frame.ok()) {
    CHECK(!frame.status().message().empty());
    return 0;
  }
  aril::v1::Frame once, twice;
  aril::cluster::ToProto(*frame, now, &once);
  const auto again = aril::cluster::FromProto(once, now);
  CHECK(again.ok());
  aril::cluster::ToProto(*again, now, &twice);
  CHECK(once.SerializeAsString() == twice.SerializeAsString());
  return 0;
}
