#include "cluster/codec_bodies.h"

#include <algorithm>
#include <chrono>

#include "cluster/aril.pb.h"
#include "cluster/field_reader.h"
#include "cluster/field_writer.h"

namespace aril::cluster {

void Write(const Welcome& welcome, TimePoint, v1::Frame* frame) {
  frame->mutable_welcome()->set_epoch(welcome.epoch.value());
}

Frame Read(const v1::Welcome& in, FieldReader& reader) {
  return Welcome{reader.EpochOf(in.epoch())};
}

void Write(const RunnerList& list, TimePoint, v1::Frame* frame) {
  v1::RunnerList& out = *frame->mutable_runner_list();
  for (const RunnerList::Runner& runner : list.runners) {
    auto& entry = *out.add_runners();
    entry.set_runner(runner.runner.value());
    entry.set_address(WireText(runner.address));
  }
}

Frame Read(const v1::RunnerList& in, FieldReader& reader) {
  RunnerList out;
  if (!reader.Count("runners", in.runners_size(), kMaxRunners)) return out;
  for (const auto& runner : in.runners()) {
    out.runners.push_back(
        {reader.Runner(runner.runner()), reader.Text("address", runner.address(), kMaxName)});
  }
  return out;
}

void Write(const wire::Submission& submission, TimePoint now, v1::Frame* frame) {
  v1::Submission& out = *frame->mutable_submission();
  out.set_sequence(submission.sequence.value());
  out.set_gateway(submission.gateway.value());
  out.set_tenant(WireText(submission.tenant));
  out.set_adapter(submission.adapter.value());
  out.set_adapter_pages(submission.adapter_pages);
  out.set_num_tokens(submission.num_tokens);
  out.set_num_generated(submission.num_generated);
  out.set_max_tokens(submission.max_tokens);
  out.set_priority(submission.priority);
  out.set_attempt(submission.attempt);
  out.set_age_us(AgeOf(submission.arrival, now));
  out.set_failed_on(submission.failed_on.value());
  out.set_numeric_class(WireText(submission.numeric_class));
  out.set_is_sibling(submission.is_sibling);
  out.mutable_prefix()->Assign(submission.prefix.begin(), submission.prefix.end());
}

Frame Read(const v1::Submission& in, FieldReader& reader) {
  wire::Submission out;
  out.sequence = reader.Sequence(in.sequence());
  out.gateway = reader.Gateway(in.gateway());
  out.tenant = reader.Text("tenant", in.tenant(), kMaxName);
  out.adapter = reader.Adapter(in.adapter());
  out.adapter_pages = reader.Pages("adapter_pages", in.adapter_pages());
  out.num_tokens = reader.Tokens("num_tokens", in.num_tokens());
  out.num_generated = reader.Tokens("num_generated", in.num_generated());
  out.max_tokens = reader.Tokens("max_tokens", in.max_tokens());
  out.priority = in.priority();
  out.attempt = reader.Attempt(in.attempt());
  out.arrival = reader.Time("age_us", in.age_us());
  out.failed_on = reader.Runner(in.failed_on(), -1);
  out.numeric_class = reader.Text("numeric_class", in.numeric_class(), kMaxName);
  out.is_sibling = in.is_sibling();
  // Of a release that has more, the first ones are as good.
  const auto num_marks = std::min(in.prefix_size(), static_cast<int>(wire::kMaxPrefixMarks));
  out.prefix.assign(in.prefix().begin(), in.prefix().begin() + num_marks);
  return out;
}

void Write(const delivery::CloseSequence& close, TimePoint, v1::Frame* frame) {
  frame->mutable_close_sequence()->set_sequence(close.sequence.value());
}

Frame Read(const v1::CloseSequence& in, FieldReader& reader) {
  return delivery::CloseSequence{reader.Sequence(in.sequence())};
}

void Write(const wire::Placement& placement, TimePoint, v1::Frame* frame) {
  v1::Placement& out = *frame->mutable_placement();
  out.set_epoch(placement.epoch.value());
  out.set_sequence(placement.sequence.value());
  out.set_gateway(placement.gateway.value());
  out.set_attempt(placement.attempt);
  out.set_runner(placement.runner.value());
}

Frame Read(const v1::Placement& in, FieldReader& reader) {
  wire::Placement out;
  out.epoch = reader.EpochOf(in.epoch());
  out.sequence = reader.Sequence(in.sequence());
  out.gateway = reader.Gateway(in.gateway());
  out.attempt = reader.Attempt(in.attempt());
  out.runner = reader.Runner(in.runner());
  return out;
}

void Write(const Refusal& refusal, TimePoint, v1::Frame* frame) {
  v1::Refusal& out = *frame->mutable_refusal();
  out.set_sequence(refusal.sequence.value());
  out.set_retry_after_us(
      std::chrono::duration_cast<std::chrono::microseconds>(refusal.retry_after).count());
  out.set_reason(WireText(refusal.reason, kMaxReason));
}

Frame Read(const v1::Refusal& in, FieldReader& reader) {
  Refusal out;
  out.sequence = reader.Sequence(in.sequence());
  out.retry_after =
      std::chrono::microseconds(reader.Int("retry_after_us", in.retry_after_us(), 0, kMaxAgeUs));
  out.reason = reader.Text("reason", in.reason(), kMaxReason);
  return out;
}

void Write(const Prefetch& prefetch, TimePoint, v1::Frame* frame) {
  frame->mutable_prefetch()->set_sequence(prefetch.sequence.value());
  frame->mutable_prefetch()->set_runner(prefetch.runner.value());
}

Frame Read(const v1::Prefetch& in, FieldReader& reader) {
  return Prefetch{reader.Sequence(in.sequence()), reader.Runner(in.runner())};
}

namespace {

v1::RunnerReport::State StateOf(wire::RunnerSequenceState state) {
  switch (state) {
    case wire::RunnerSequenceState::kRunning:
      return v1::RunnerReport::RUNNING;
    case wire::RunnerSequenceState::kEvicted:
      return v1::RunnerReport::EVICTED;
    case wire::RunnerSequenceState::kLoading:
      return v1::RunnerReport::LOADING;
    case wire::RunnerSequenceState::kPending:
      break;
  }
  return v1::RunnerReport::PENDING;
}

}  // namespace

void Write(const wire::RunnerReport& report, TimePoint now, v1::Frame* frame) {
  v1::RunnerReport& out = *frame->mutable_runner_report();
  out.set_runner(report.runner.value());
  out.set_number(report.number);
  out.set_available_pages(report.available_pages);
  for (const wire::RunnerSequence& sequence : report.sequences) {
    auto& entry = *out.add_sequences();
    entry.set_sequence(sequence.sequence.value());
    entry.set_gateway(sequence.gateway.value());
    entry.set_attempt(sequence.attempt);
    entry.set_state(StateOf(sequence.state));
    entry.set_adapter(sequence.adapter.value());
    entry.set_adapter_pages(sequence.adapter_pages);
    entry.set_num_tokens(sequence.num_tokens);
    entry.set_num_generated(sequence.num_generated);
    entry.set_priority(sequence.priority);
    entry.set_age_us(AgeOf(sequence.arrival, now));
  }
}

namespace {

wire::RunnerSequence Read(const v1::RunnerReport::Sequence& in, FieldReader& reader) {
  wire::RunnerSequence out;
  out.sequence = reader.Sequence(in.sequence());
  out.gateway = reader.Gateway(in.gateway());
  out.attempt = reader.Attempt(in.attempt());
  // One that a later release knows is none that waits for another runner.
  out.state = in.state() == v1::RunnerReport::EVICTED   ? wire::RunnerSequenceState::kEvicted
              : in.state() == v1::RunnerReport::PENDING ? wire::RunnerSequenceState::kPending
              : in.state() == v1::RunnerReport::LOADING ? wire::RunnerSequenceState::kLoading
                                                        : wire::RunnerSequenceState::kRunning;
  out.adapter = reader.Adapter(in.adapter());
  out.adapter_pages = reader.Pages("adapter_pages", in.adapter_pages());
  out.num_tokens = reader.Tokens("num_tokens", in.num_tokens());
  out.num_generated = reader.Tokens("num_generated", in.num_generated());
  out.priority = in.priority();
  out.arrival = reader.Time("age_us", in.age_us());
  return out;
}

}  // namespace

Frame Read(const v1::RunnerReport& in, FieldReader& reader) {
  wire::RunnerReport out;
  out.runner = reader.Runner(in.runner());
  out.number = reader.Int("number", in.number(), 1, kInt64Max);
  out.available_pages = reader.Pages("available_pages", in.available_pages());
  if (!reader.Count("sequences", in.sequences_size(), kMaxSequences)) return out;
  out.sequences.reserve(static_cast<size_t>(in.sequences_size()));
  for (const auto& sequence : in.sequences()) out.sequences.push_back(Read(sequence, reader));
  return out;
}

void Write(const RunnerLeaving&, TimePoint, v1::Frame* frame) { frame->mutable_runner_leaving(); }

Frame Read(const v1::RunnerLeaving&, FieldReader&) { return RunnerLeaving{}; }

}  // namespace aril::cluster
