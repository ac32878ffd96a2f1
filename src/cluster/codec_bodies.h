// The conversions of each kind of frame, for codec.cc. Write fills the body of a frame; Read gives
// the reader what is out of range, and something harmless in its place.

#ifndef ARIL_CLUSTER_CODEC_BODIES_H_
#define ARIL_CLUSTER_CODEC_BODIES_H_

#include "base/clock.h"
#include "cluster/field_reader.h"
#include "cluster/frames.h"

namespace aril::v1 {
// Generated from aril.proto.
class AttemptRefused;
class CloseSequence;
class Frame;
class Hello;
class LoadAdapters;
class Placement;
class Prefetch;
class Refusal;
class ReleaseAttempt;
class RunnerLeaving;
class RunnerList;
class RunnerReport;
class StartAttempt;
class Submission;
class TokenEvents;
class Welcome;
}  // namespace aril::v1

namespace aril::cluster {

// The greeting (codec_hello.cc).
void Write(const Hello& hello, TimePoint, v1::Frame* frame);
Frame Read(const v1::Hello& in, FieldReader& reader);

// Between the scheduler and the others (codec_scheduler.cc).
void Write(const Welcome& welcome, TimePoint, v1::Frame* frame);
Frame Read(const v1::Welcome& in, FieldReader& reader);
void Write(const RunnerList& list, TimePoint, v1::Frame* frame);
Frame Read(const v1::RunnerList& in, FieldReader& reader);
void Write(const wire::Submission& submission, TimePoint now, v1::Frame* frame);
Frame Read(const v1::Submission& in, FieldReader& reader);
void Write(const delivery::CloseSequence& close, TimePoint, v1::Frame* frame);
Frame Read(const v1::CloseSequence& in, FieldReader& reader);
void Write(const wire::Placement& placement, TimePoint, v1::Frame* frame);
Frame Read(const v1::Placement& in, FieldReader& reader);
void Write(const Refusal& refusal, TimePoint, v1::Frame* frame);
Frame Read(const v1::Refusal& in, FieldReader& reader);
void Write(const Prefetch& prefetch, TimePoint, v1::Frame* frame);
Frame Read(const v1::Prefetch& in, FieldReader& reader);
void Write(const wire::RunnerReport& report, TimePoint now, v1::Frame* frame);
Frame Read(const v1::RunnerReport& in, FieldReader& reader);
void Write(const RunnerLeaving&, TimePoint, v1::Frame* frame);
Frame Read(const v1::RunnerLeaving&, FieldReader&);

// Between gateways and runners (codec_attempts.cc).
void Write(const delivery::StartAttempt& start, TimePoint now, v1::Frame* frame);
Frame Read(const v1::StartAttempt& in, FieldReader& reader);
void Write(const delivery::ReleaseAttempt& release, TimePoint, v1::Frame* frame);
Frame Read(const v1::ReleaseAttempt& in, FieldReader& reader);
void Write(const delivery::AttemptRefused& refused, TimePoint, v1::Frame* frame);
Frame Read(const v1::AttemptRefused& in, FieldReader& reader);
void Write(const LoadAdapters& load, TimePoint, v1::Frame* frame);
Frame Read(const v1::LoadAdapters& in, FieldReader& reader);
void Write(const TokenEvents& events, TimePoint, v1::Frame* frame);
Frame Read(const v1::TokenEvents& in, FieldReader& reader);

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_CODEC_BODIES_H_
