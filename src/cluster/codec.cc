#include "cluster/codec.h"

#include <utility>
#include <variant>

#include "base/strings.h"
#include "cluster/aril.pb.h"
#include "cluster/codec_bodies.h"
#include "cluster/field_reader.h"

namespace aril::cluster {
namespace {

Frame ReadBody(const v1::Frame& frame, FieldReader& reader) {
  switch (frame.body_case()) {
    case v1::Frame::kHello:
      return Read(frame.hello(), reader);
    case v1::Frame::kWelcome:
      return Read(frame.welcome(), reader);
    case v1::Frame::kRunnerList:
      return Read(frame.runner_list(), reader);
    case v1::Frame::kSubmission:
      return Read(frame.submission(), reader);
    case v1::Frame::kCloseSequence:
      return Read(frame.close_sequence(), reader);
    case v1::Frame::kPlacement:
      return Read(frame.placement(), reader);
    case v1::Frame::kRefusal:
      return Read(frame.refusal(), reader);
    case v1::Frame::kRunnerReport:
      return Read(frame.runner_report(), reader);
    case v1::Frame::kRunnerLeaving:
      return Read(frame.runner_leaving(), reader);
    case v1::Frame::kStartAttempt:
      return Read(frame.start_attempt(), reader);
    case v1::Frame::kReleaseAttempt:
      return Read(frame.release_attempt(), reader);
    case v1::Frame::kTokenEvents:
      return Read(frame.token_events(), reader);
    case v1::Frame::kAttemptRefused:
      return Read(frame.attempt_refused(), reader);
    case v1::Frame::kPrefetch:
      return Read(frame.prefetch(), reader);
    case v1::Frame::kLoadAdapters:
      return Read(frame.load_adapters(), reader);
    case v1::Frame::BODY_NOT_SET:
      break;
  }
  return Frame();
}

}  // namespace

void ToProto(const Frame& frame, TimePoint now, v1::Frame* proto) {
  proto->Clear();
  std::visit([&](const auto& body) { Write(body, now, proto); }, frame);
}

StatusOr<Frame> FromProto(const v1::Frame& proto, TimePoint now) {
  // Who sends what we do not know ought to have asked for it by a feature in its Hello.
  if (proto.body_case() == v1::Frame::BODY_NOT_SET) {
    return Unimplemented("a message of a kind that this release does not know");
  }
  FieldReader reader(now);
  Frame frame = ReadBody(proto, reader);
  if (reader.problem().empty()) return frame;
  return InvalidArgument(StrCat("a bad ", NameOf(frame), ": ", reader.problem()));
}

std::optional<Frame> AnswerToBad(const v1::Frame& proto, const Status& why) {
  if (!proto.has_start_attempt()) return std::nullopt;
  const v1::StartAttempt& start = proto.start_attempt();
  FieldReader reader{TimePoint()};
  wire::TokenEvent failed;
  failed.sequence = reader.Sequence(start.sequence());
  failed.attempt = reader.Attempt(start.attempt());
  failed.index = reader.Tokens("output", start.output_size());
  failed.finish = wire::FinishReason::kError;
  failed.error = why;
  if (!reader.problem().empty()) return std::nullopt;
  return TokenEvents{{std::move(failed)}};
}

}  // namespace aril::cluster
