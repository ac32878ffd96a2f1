#include "cluster/codec_bodies.h"

#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/strings.h"
#include "cluster/aril.pb.h"
#include "cluster/field_reader.h"
#include "cluster/field_writer.h"
#include "wire/limits.h"

namespace aril::cluster {

namespace {

void Write(const wire::SamplingParams& params, v1::Sampling* out) {
  out->set_temperature(params.temperature);
  out->set_top_k(params.top_k);
  out->set_top_p(params.top_p);
  out->set_min_p(params.min_p);
  out->set_repetition_penalty(params.repetition_penalty);
  out->set_presence_penalty(params.presence_penalty);
  out->set_frequency_penalty(params.frequency_penalty);
  for (const auto& [token, bias] : params.logit_bias) {
    auto& entry = *out->add_logit_bias();
    entry.set_token(token);
    entry.set_bias(bias);
  }
  out->mutable_allowed_token_ids()->Assign(params.allowed_token_ids.begin(),
                                           params.allowed_token_ids.end());
  for (const std::vector<int32_t>& word : params.bad_words) {
    out->add_bad_words()->mutable_tokens()->Assign(word.begin(), word.end());
  }
  out->set_seed(params.seed);
  if (params.num_logprobs) out->set_num_logprobs(*params.num_logprobs);
  out->set_prompt_logprobs(params.prompt_logprobs);
}

wire::SamplingParams Read(const v1::Sampling& in, FieldReader& reader) {
  wire::SamplingParams out;
  out.temperature = reader.Number("temperature", in.temperature(), 0, wire::kMaxTemperature);
  out.top_k = reader.Int32("top_k", in.top_k(), 0, kInt32Max);
  out.top_p = reader.Number("top_p", in.top_p(), wire::kMinTopP, 1);
  out.min_p = reader.Number("min_p", in.min_p(), 0, 1);
  out.repetition_penalty = reader.Number("repetition_penalty", in.repetition_penalty(),
                                         wire::kMinRepetitionPenalty, wire::kMaxRepetitionPenalty);
  out.presence_penalty =
      reader.Number("presence_penalty", in.presence_penalty(), wire::kMaxPenalty);
  out.frequency_penalty =
      reader.Number("frequency_penalty", in.frequency_penalty(), wire::kMaxPenalty);
  for (const auto& entry : in.logit_bias()) {
    out.logit_bias.emplace_back(reader.Int32("logit_bias token", entry.token(), 0, kInt32Max),
                                reader.Number("logit_bias", entry.bias(), wire::kMaxLogitBias));
  }
  if (reader.Count("allowed_token_ids", in.allowed_token_ids_size(), wire::kMaxAllowedTokenIds)) {
    out.allowed_token_ids = ToVector(in.allowed_token_ids());
  }
  if (reader.Count("bad_words", in.bad_words_size(), wire::kMaxBadWords)) {
    for (const auto& word : in.bad_words()) {
      if (!reader.Count("a bad word", word.tokens_size(), wire::kMaxBadWordTokens)) break;
      out.bad_words.push_back(ToVector(word.tokens()));
    }
  }
  out.seed = in.seed();
  if (in.has_num_logprobs()) {
    out.num_logprobs = reader.Int32("num_logprobs", in.num_logprobs(), 0, wire::kMaxLogprobs);
  }
  out.prompt_logprobs = in.prompt_logprobs();
  if (out.prompt_logprobs && !out.num_logprobs) {
    reader.Fail("prompt_logprobs is set without num_logprobs");
  }
  return out;
}

v1::OutputFormat::Kind KindOf(wire::OutputFormat::Kind kind) {
  switch (kind) {
    case wire::OutputFormat::Kind::kJsonSchema:
      return v1::OutputFormat::JSON_SCHEMA;
    case wire::OutputFormat::Kind::kRegex:
      return v1::OutputFormat::REGEX;
    case wire::OutputFormat::Kind::kToolCalls:
      return v1::OutputFormat::TOOL_CALLS;
    case wire::OutputFormat::Kind::kText:
      break;
  }
  return v1::OutputFormat::TEXT;
}

wire::OutputFormat::Kind KindOf(v1::OutputFormat::Kind kind, FieldReader& reader) {
  switch (kind) {
    case v1::OutputFormat::TEXT:
      return wire::OutputFormat::Kind::kText;
    case v1::OutputFormat::JSON_SCHEMA:
      return wire::OutputFormat::Kind::kJsonSchema;
    case v1::OutputFormat::REGEX:
      return wire::OutputFormat::Kind::kRegex;
    case v1::OutputFormat::TOOL_CALLS:
      return wire::OutputFormat::Kind::kToolCalls;
    default:
      reader.Fail(StrCat("the format's kind is ", static_cast<int>(kind),
                         ", which this release does not know"));
      return wire::OutputFormat::Kind::kText;
  }
}

void Write(const wire::OutputFormat& format, v1::OutputFormat* out) {
  out->set_kind(KindOf(format.kind));
  out->set_source(WireText(format.source));
  if (!format.reasoning) return;
  out->mutable_reasoning()->set_begin(WireText(format.reasoning->begin));
  out->mutable_reasoning()->set_end(WireText(format.reasoning->end));
  out->mutable_reasoning()->set_answer(WireText(format.reasoning->answer));
}

wire::OutputFormat Read(const v1::OutputFormat& in, FieldReader& reader) {
  wire::OutputFormat out;
  out.kind = KindOf(in.kind(), reader);
  out.source = reader.Text("the format's source", in.source(),
                           static_cast<int>(wire::kMaxOutputFormatBytes));
  if (in.has_reasoning()) {
    const auto text = [&](const char* field, const std::string& value) {
      return reader.Text(field, value, static_cast<int>(wire::kMaxReasoningMarkerBytes));
    };
    out.reasoning = {.begin = text("the beginning of reasoning", in.reasoning().begin()),
                     .end = text("the end of reasoning", in.reasoning().end()),
                     .answer = text("the beginning of an answer", in.reasoning().answer())};
  }
  if (out.is_text() && (!out.source.empty() || out.reasoning)) {
    reader.Fail("a format of any text has a source, or reasoning");
  }
  return out;
}

void Write(const wire::ReasoningBudget& budget, v1::ReasoningBudget* out) {
  out->set_max_tokens(budget.max_tokens);
  if (budget.begin) out->set_begin(*budget.begin);
  out->mutable_closing()->Assign(budget.closing.begin(), budget.closing.end());
}

wire::ReasoningBudget Read(const v1::ReasoningBudget& in, FieldReader& reader) {
  wire::ReasoningBudget out = {
      .max_tokens = reader.Int32("the budget for reasoning", in.max_tokens(), 0, kInt32Max)};
  if (in.has_begin()) out.begin = in.begin();
  if (reader.Count("what closes reasoning", in.closing_size(), wire::kMaxReasoningClosingTokens)) {
    out.closing = ToVector(in.closing());
  }
  if (out.closing.empty()) reader.Fail("reasoning with a budget is closed by nothing");
  return out;
}

using SharedInFrame = google::protobuf::RepeatedPtrField<v1::StartAttempt::SharedAdapter>;

void Write(const std::vector<delivery::SharedAdapter>& shared, SharedInFrame* out) {
  for (const delivery::SharedAdapter& adapter : shared) {
    auto& entry = *out->Add();
    entry.set_adapter(adapter.adapter.value());
    entry.set_digest(WireText(adapter.digest));
    for (const std::string& source : adapter.sources) entry.add_sources(WireText(source));
  }
}

std::vector<delivery::SharedAdapter> Read(const SharedInFrame& in, FieldReader& reader) {
  std::vector<delivery::SharedAdapter> out;
  if (!reader.Count("shared", in.size(), kMaxAdaptersPerSequence)) return out;
  for (const auto& entry : in) {
    delivery::SharedAdapter& adapter = out.emplace_back();
    adapter.adapter = AdapterId(reader.Int32("shared adapter", entry.adapter(),
                                             delivery::kFirstSharedAdapter.value(), kInt32Max));
    adapter.digest = reader.Text("digest", entry.digest(), kMaxName);
    if (!reader.Count("sources", entry.sources_size(), delivery::kMaxSources)) return out;
    for (const std::string& source : entry.sources()) {
      adapter.sources.push_back(reader.Text("source", source, kMaxSource));
    }
  }
  return out;
}

v1::Pooling PoolingOf(wire::Pooling pooling) {
  switch (pooling) {
    case wire::Pooling::kNone:
      return v1::POOLING_NONE;
    case wire::Pooling::kEmbedding:
      return v1::POOLING_EMBEDDING;
    case wire::Pooling::kClassLogits:
      return v1::POOLING_CLASS_LOGITS;
    case wire::Pooling::kClassProbabilities:
      return v1::POOLING_CLASS_PROBABILITIES;
  }
  CHECK(false);
}

wire::Pooling PoolingOf(v1::Pooling pooling, FieldReader& reader) {
  switch (pooling) {
    case v1::POOLING_NONE:
      return wire::Pooling::kNone;
    case v1::POOLING_EMBEDDING:
      return wire::Pooling::kEmbedding;
    case v1::POOLING_CLASS_LOGITS:
      return wire::Pooling::kClassLogits;
    case v1::POOLING_CLASS_PROBABILITIES:
      return wire::Pooling::kClassProbabilities;
    default:
      reader.Fail(
          StrCat("pooling is ", static_cast<int>(pooling), ", which this release does not know"));
      return wire::Pooling::kNone;
  }
}

}  // namespace

void Write(const delivery::StartAttempt& start, TimePoint now, v1::Frame* frame) {
  v1::StartAttempt& out = *frame->mutable_start_attempt();
  const wire::SequenceRequest& request = start.request;
  out.set_epoch(start.epoch.value());
  out.set_gateway(start.gateway.value());
  out.set_adapter_pages(start.adapter_pages);
  out.mutable_output()->Assign(start.output.begin(), start.output.end());
  out.set_sequence(request.sequence.value());
  out.set_tenant(WireText(request.tenant));
  for (const AdapterUse& use : request.adapters) {
    auto& entry = *out.add_adapters();
    entry.set_adapter(use.id.value());
    entry.set_weight(use.weight);
  }
  out.mutable_prompt()->Assign(request.prompt.begin(), request.prompt.end());
  out.set_choice(request.choice);
  out.set_max_tokens(request.max_tokens);
  out.set_min_tokens(request.min_tokens);
  out.mutable_stop_token_ids()->Assign(request.stop_token_ids.begin(),
                                       request.stop_token_ids.end());
  Write(request.sampling, out.mutable_sampling());
  if (request.format != wire::OutputFormat()) Write(request.format, out.mutable_format());
  if (request.reasoning_budget) {
    Write(*request.reasoning_budget, out.mutable_reasoning_budget());
  }
  out.mutable_prediction()->Assign(request.prediction.begin(), request.prediction.end());
  out.set_pooling(PoolingOf(request.pooling));
  out.set_priority(request.priority);
  out.set_attempt(request.attempt);
  out.set_age_us(AgeOf(request.arrival, now));
  Write(start.shared, out.mutable_shared());
}

Frame Read(const v1::StartAttempt& in, FieldReader& reader) {
  delivery::StartAttempt out;
  out.epoch = reader.EpochOf(in.epoch());
  out.gateway = reader.Gateway(in.gateway());
  out.adapter_pages = reader.Pages("adapter_pages", in.adapter_pages());
  out.output = ToVector(in.output());
  wire::SequenceRequest& request = out.request;
  request.sequence = reader.Sequence(in.sequence());
  request.tenant = reader.Text("tenant", in.tenant(), kMaxName);
  if (reader.Count("adapters", in.adapters_size(), kMaxAdaptersPerSequence)) {
    for (const auto& use : in.adapters()) {
      request.adapters.push_back(
          {.id = AdapterId(reader.Int32("adapter", use.adapter(), 0, kInt32Max)),
           .weight = reader.Number("weight", use.weight(), wire::kMaxAdapterWeight)});
    }
  }
  request.prompt = ToVector(in.prompt());
  request.choice = reader.Int32("choice", in.choice(), 0, kInt32Max);
  request.max_tokens = reader.Tokens("max_tokens", in.max_tokens());
  request.min_tokens = reader.Tokens("min_tokens", in.min_tokens());
  request.stop_token_ids = ToVector(in.stop_token_ids());
  request.sampling = Read(in.sampling(), reader);
  request.format = Read(in.format(), reader);
  if (in.has_reasoning_budget()) {
    request.reasoning_budget = Read(in.reasoning_budget(), reader);
  }
  if (reader.Count("prediction", in.prediction_size(), wire::kMaxPredictionTokens)) {
    request.prediction = ToVector(in.prediction());
  }
  request.pooling = PoolingOf(in.pooling(), reader);
  request.priority = in.priority();
  request.attempt = reader.Attempt(in.attempt());
  request.arrival = reader.Time("age_us", in.age_us());
  out.shared = Read(in.shared(), reader);
  return out;
}

void Write(const LoadAdapters& load, TimePoint, v1::Frame* frame) {
  v1::LoadAdapters& out = *frame->mutable_load_adapters();
  out.set_tenant(WireText(load.tenant));
  Write(load.shared, out.mutable_shared());
}

Frame Read(const v1::LoadAdapters& in, FieldReader& reader) {
  return LoadAdapters{.tenant = reader.Text("tenant", in.tenant(), kMaxName),
                      .shared = Read(in.shared(), reader)};
}

void Write(const delivery::ReleaseAttempt& release, TimePoint, v1::Frame* frame) {
  frame->mutable_release_attempt()->set_sequence(release.sequence.value());
  frame->mutable_release_attempt()->set_attempt(release.attempt);
}

Frame Read(const v1::ReleaseAttempt& in, FieldReader& reader) {
  return delivery::ReleaseAttempt{reader.Sequence(in.sequence()), reader.Attempt(in.attempt())};
}

void Write(const delivery::AttemptRefused& refused, TimePoint, v1::Frame* frame) {
  v1::AttemptRefused& out = *frame->mutable_attempt_refused();
  out.set_sequence(refused.sequence.value());
  out.set_attempt(refused.attempt);
  out.set_reason(WireText(refused.reason, kMaxReason));
}

Frame Read(const v1::AttemptRefused& in, FieldReader& reader) {
  return delivery::AttemptRefused{.sequence = reader.Sequence(in.sequence()),
                                  .attempt = reader.Attempt(in.attempt()),
                                  .reason = reader.Text("reason", in.reason(), kMaxReason)};
}

namespace {

void Write(const wire::Logprobs& logprobs, v1::Logprobs* out) {
  out->set_logprob(logprobs.logprob);
  out->set_rank(logprobs.rank);
  for (const wire::TokenLogprob& top : logprobs.top) {
    out->add_top_tokens(top.token);
    out->add_top_logprobs(top.logprob);
  }
}

wire::Logprobs Read(const v1::Logprobs& in, FieldReader& reader) {
  wire::Logprobs out{.logprob = in.logprob(), .rank = in.rank()};
  if (in.top_tokens_size() != in.top_logprobs_size()) {
    reader.Fail(StrCat("top_tokens has ", in.top_tokens_size(), " entries, and top_logprobs ",
                       in.top_logprobs_size()));
    return out;
  }
  for (int i = 0; i < in.top_tokens_size(); ++i) {
    out.top.push_back({in.top_tokens(i), in.top_logprobs(i)});
  }
  return out;
}

v1::TokenEvents::Finish FinishOf(const std::optional<wire::FinishReason>& finish) {
  if (!finish) return v1::TokenEvents::NOT_FINISHED;
  switch (*finish) {
    case wire::FinishReason::kStop:
      return v1::TokenEvents::STOP;
    case wire::FinishReason::kLength:
      return v1::TokenEvents::LENGTH;
    case wire::FinishReason::kCancelled:
      return v1::TokenEvents::CANCELLED;
    case wire::FinishReason::kError:
      break;
  }
  return v1::TokenEvents::ERROR;
}

std::optional<wire::FinishReason> FinishOf(v1::TokenEvents::Finish finish, FieldReader& reader) {
  switch (finish) {
    case v1::TokenEvents::NOT_FINISHED:
      return std::nullopt;
    case v1::TokenEvents::STOP:
      return wire::FinishReason::kStop;
    case v1::TokenEvents::LENGTH:
      return wire::FinishReason::kLength;
    case v1::TokenEvents::CANCELLED:
      return wire::FinishReason::kCancelled;
    case v1::TokenEvents::ERROR:
      return wire::FinishReason::kError;
    default:
      reader.Fail(
          StrCat("finish is ", static_cast<int>(finish), ", which this release does not know"));
      return wire::FinishReason::kError;
  }
}

}  // namespace

void Write(const TokenEvents& events, TimePoint, v1::Frame* frame) {
  v1::TokenEvents& out = *frame->mutable_token_events();
  for (const wire::TokenEvent& event : events.events) {
    auto& entry = *out.add_events();
    entry.set_sequence(event.sequence.value());
    entry.set_attempt(event.attempt);
    entry.set_index(event.index);
    if (event.token) entry.set_token(*event.token);
    if (event.logprobs) Write(*event.logprobs, entry.mutable_logprobs());
    for (const wire::Logprobs& logprobs : event.prompt_logprobs) {
      Write(logprobs, entry.add_prompt_logprobs());
    }
    entry.mutable_pooled()->Assign(event.pooled.begin(), event.pooled.end());
    entry.set_label(WireText(event.label));
    entry.set_finish(FinishOf(event.finish));
    if (event.stop_token) entry.set_stop_token(*event.stop_token);
    entry.set_num_cached(event.num_cached);
    entry.set_num_accepted_prediction(event.prediction_use.num_accepted);
    entry.set_num_rejected_prediction(event.prediction_use.num_rejected);
    if (event.error.ok()) continue;
    entry.set_error_code(static_cast<uint32_t>(event.error.code()));
    entry.set_error_message(WireText(Message(event.error), kMaxReason));
  }
}

namespace {

wire::TokenEvent Read(const v1::TokenEvents::Event& in, FieldReader& reader) {
  wire::TokenEvent out;
  out.sequence = reader.Sequence(in.sequence());
  out.attempt = reader.Attempt(in.attempt());
  out.index = reader.Tokens("index", in.index());
  if (in.has_token()) out.token = reader.Int32("token", in.token(), 0, kInt32Max);
  if (in.has_logprobs()) out.logprobs = Read(in.logprobs(), reader);
  for (const v1::Logprobs& logprobs : in.prompt_logprobs()) {
    out.prompt_logprobs.push_back(Read(logprobs, reader));
  }
  if (reader.Count("pooled", in.pooled_size(), wire::kMaxPooledSize)) {
    out.pooled.assign(in.pooled().begin(), in.pooled().end());
  }
  out.label = reader.Text("label", in.label(), kMaxName);
  out.finish = FinishOf(in.finish(), reader);
  if (!out.token && !out.finish) reader.Fail("an event has neither a token nor an end");
  if (in.has_stop_token()) out.stop_token = in.stop_token();
  out.num_cached = reader.Tokens("num_cached", in.num_cached());
  out.prediction_use = {
      .num_accepted = reader.Tokens("num_accepted_prediction", in.num_accepted_prediction()),
      .num_rejected = reader.Tokens("num_rejected_prediction", in.num_rejected_prediction())};
  const auto code = static_cast<int>(reader.Int("error_code", in.error_code(), 0, 16));
  if (code != 0) {
    out.error = MakeStatus(static_cast<StatusCode>(code),
                           reader.Text("error_message", in.error_message(), kMaxReason));
  }
  return out;
}

}  // namespace

Frame Read(const v1::TokenEvents& in, FieldReader& reader) {
  TokenEvents out;
  if (!reader.Count("events", in.events_size(), kMaxSequences)) return out;
  for (const auto& event : in.events()) out.events.push_back(Read(event, reader));
  return out;
}

}  // namespace aril::cluster
