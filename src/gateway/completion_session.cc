#include "gateway/completion_session.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "gateway/sse.h"
#include "spec/classifier_spec.h"

namespace aril::gateway {
namespace {

// What takes some milliseconds to put together.
constexpr size_t kMaxNumbersAtOnce = 4096;
constexpr size_t kMaxTextAtOnce = 256 << 10;  // bytes

template <typename T>
void MoveAppend(std::vector<T>&& from, std::vector<T>* to) {
  to->insert(to->end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void Merge(ChoiceDelta delta, ChoiceDelta* whole) {
  whole->reasoning += delta.reasoning;
  whole->text += delta.text;
  for (ToolCallDelta& call : delta.tool_calls) {
    if (!call.name.empty()) {
      whole->tool_calls.push_back(std::move(call));
    } else {
      whole->tool_calls.back().arguments += call.arguments;
    }
  }
  whole->ends_with_calls |= delta.ends_with_calls;
  if (delta.stop_string) whole->stop_string = std::move(delta.stop_string);
  MoveAppend(std::move(delta.logprobs), &whole->logprobs);
  MoveAppend(std::move(delta.token_ids), &whole->token_ids);
  MoveAppend(std::move(delta.pooled), &whole->pooled);
  whole->label += delta.label;
  if (delta.finish) whole->finish = delta.finish;
}

ApiError RunnerError(const wire::TokenEvent& event) {
  if (*event.finish == wire::FinishReason::kCancelled) {
    return Overloaded("The server is shutting down. Please try again.");
  }
  return FromStatus(event.error.ok() ? Internal("The sequence ended without a reason.")
                                     : event.error);
}

std::unique_ptr<const AnswerFormat> MakeFormat(const CompletionRequest& request,
                                               const AnswerHead& head) {
  switch (request.endpoint) {
    case Endpoint::kCompletions:
      return MakeCompletionFormat(head);
    case Endpoint::kChat:
      return MakeChatFormat(head);
    case Endpoint::kResponses:
      return MakeResponsesFormat(head, request.repeated);
    case Endpoint::kMessages:
      return MakeMessagesFormat(head, request);
    case Endpoint::kEmbeddings:
      return MakeEmbeddingsFormat(head, *request.embedding);
    case Endpoint::kClassify:
      return MakeClassesFormat(head);
  }
  CHECK(false);
}

}  // namespace

CompletionSession::CompletionSession(CompletionSessionOptions options)
    : request_(std::move(options.request)),
      model_(std::move(options.model)),
      responder_(std::move(options.responder)),
      headers_(std::move(options.headers)),
      error_style_(options.error_style),
      arrival_(options.arrival),
      clock_(*options.clock),
      metrics_(*options.metrics),
      stop_strings_(request_.stop),
      format_(MakeFormat(request_, {options.id, clock_.UnixSeconds(), request_.model})) {
  choices_.reserve(static_cast<size_t>(request_.num_candidates()));
  for (const CompletionPrompt& prompt : request_.prompts) {
    for (int32_t i = 0; i < request_.best_of; ++i) {
      choices_.emplace_back(
          ChoiceOutput(request_, prompt, stop_strings_, *request_.model_text->tokenizer));
    }
  }
}

void CompletionSession::Start() {
  if (!request_.stream) return;
  stream_ = format_->Stream(request_.include_usage);
  HttpHeaders headers = Headers();
  // Without these, proxies hold events back.
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");
  responder_->StartStream(
      {.content_type = std::string(kSseContentType), .headers = std::move(headers), .body = ""},
      std::string(kSseHeartbeat));
  WriteEvents(stream_->Begin());
}

HttpHeaders CompletionSession::Headers() const {
  HttpHeaders headers = headers_;
  // Which versions of which adapters answer: a name may move, or be split.
  std::vector<std::string> digests;
  for (const CatalogEntryPtr& entry : request_.entries) {
    if (entry->generation != nullptr) digests.push_back((*entry->generation)->digest);
  }
  if (!digests.empty()) headers.emplace_back("Aril-Generation", Join(digests, ", "));
  return headers;
}

bool CompletionSession::OnEvent(int64_t choice_idx, wire::TokenEvent event) {
  Choice& choice = choices_[static_cast<size_t>(choice_idx)];
  CHECK(!choice.ended && !done_);
  const bool failed = event.finish && (*event.finish == wire::FinishReason::kError ||
                                       *event.finish == wire::FinishReason::kCancelled);
  if (failed) {
    choice.ended = true;
    Fail(RunnerError(event));
    return false;
  }
  if (!AcceptIndex(choice, event) || !AcceptPooled(event)) return false;
  // Of the attempt that began with the prompt: a later one finds tokens of the answer, too.
  if (event.index == 0) choice.num_cached = event.num_cached;
  choice.prediction.num_accepted += event.prediction_use.num_accepted;
  choice.prediction.num_rejected += event.prediction_use.num_rejected;
  if (event.token) RecordToken(choice);
  if (event.logprobs) choice.sum_logprobs += double{event.logprobs->logprob};
  ChoiceDelta delta = choice.output.Append(std::move(event));
  const bool cancel = delta.cancel;
  if (delta.finish) {
    choice.ended = true;
    ++num_ended_;
    metrics_.OnSequenceFinished(*delta.finish, clock_.Now() - arrival_);
  }
  Deliver(choice_idx, std::move(delta));
  // (Writing may have found that the client is gone.)
  if (!done_ && num_ended_ == request_.num_candidates()) Complete();
  return cancel;
}

// Tokens must come without gaps and duplicates (DESIGN, promise 4).
bool CompletionSession::AcceptIndex(Choice& choice, const wire::TokenEvent& event) {
  if (!event.token) return true;
  if (event.index == choice.next_index) {
    ++choice.next_index;
    return true;
  }
  Fail(FromStatus(Internal(StrCat("The token stream is broken: expected token ", choice.next_index,
                                  ", got token ", event.index, "."))));
  return false;
}

// What a runner must not give.
bool CompletionSession::AcceptPooled(const wire::TokenEvent& event) {
  if (!request_.is_pooled()) return true;
  const auto size = std::ssize(event.pooled);
  const int64_t hidden_size = model_->spec.hidden_size;
  const bool is_whole =
      request_.embedding ? size == hidden_size : size > 0 && size <= kMaxClassLabels;
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (is_whole && std::ranges::all_of(event.pooled, is_finite)) return true;
  const std::string wanted =
      request_.embedding ? StrCat(hidden_size) : StrCat("1 to ", kMaxClassLabels);
  Fail(FromStatus(Internal(
      is_whole ? "What was computed of a text is not finite."
               : StrCat("The runner gave ", size, " numbers where ", wanted, " were asked for."))));
  return false;
}

void CompletionSession::RecordToken(Choice& choice) {
  const TimePoint now = clock_.Now();
  if (choice.next_index == 1) {
    metrics_.OnFirstToken(now - arrival_);
  } else {
    metrics_.OnNextToken(now - choice.last_token);
  }
  choice.last_token = now;
}

void CompletionSession::Deliver(int64_t choice_idx, ChoiceDelta delta) {
  Choice& choice = choices_[static_cast<size_t>(choice_idx)];
  if (stream_ == nullptr) return Merge(std::move(delta), &choice.whole);
  WriteEvents(stream_->Append(View(choice_idx, delta)));
}

void CompletionSession::WriteEvents(const std::string& events) {
  if (!events.empty()) responder_->Write(events);
}

void CompletionSession::Complete() {
  const Usage usage = CountUsage();
  const bool is_stream = stream_ != nullptr;
  owes_answer_ = !is_stream && IsLong();
  // If one of these throws, Fail can still give an answer.
  HttpResponse answer = is_stream || owes_answer_ ? HttpResponse() : MakeAnswer();
  const std::string end = is_stream ? stream_->End(usage) : "";
  done_ = true;
  metrics_.OnRequestFinished();
  metrics_.OnUsage(request_.common.tenant, usage.prompt_tokens, usage.completion_tokens);
  if (owes_answer_) return;
  if (!is_stream) return responder_->Respond(std::move(answer));
  WriteEvents(end);
  responder_->Finish();
}

bool CompletionSession::IsLong() const {
  size_t num_numbers = 0;
  size_t num_bytes = 0;
  // Logprobs are of tokens, and of what else could have been there.
  const auto of_token = static_cast<size_t>(request_.common.sampling.num_logprobs.value_or(0)) + 1;
  for (const Choice& choice : choices_) {
    num_numbers += choice.whole.logprobs.size() * of_token + choice.whole.token_ids.size();
    num_bytes += choice.whole.reasoning.size() + choice.whole.text.size();
    num_bytes += choice.whole.label.size();
    num_numbers += choice.whole.tool_calls.size() + choice.whole.pooled.size();
    for (const ToolCallDelta& call : choice.whole.tool_calls) num_bytes += call.arguments.size();
  }
  return num_numbers > kMaxNumbersAtOnce || num_bytes > kMaxTextAtOnce;
}

HttpResponse CompletionSession::MakeAnswer() const {
  return {.headers = Headers(), .body = format_->Full(BestChoices(), CountUsage())};
}

HttpResponse CompletionSession::MakeError(const ApiError& error) const {
  return ErrorResponse(error, error_style_);
}

// Of each prompt's candidates the n with the highest logprob per token, best first; all of them, in
// their order, where none is to be left out.
std::vector<ChoiceView> CompletionSession::BestChoices() const {
  const auto mean_logprob = [this](size_t candidate) {
    const Choice& choice = choices_[candidate];
    return choice.sum_logprobs / static_cast<double>(std::max(choice.next_index, 1));
  };
  const auto best_of = static_cast<size_t>(request_.best_of);
  std::vector<ChoiceView> views;
  for (size_t first = 0; first < choices_.size(); first += best_of) {
    std::vector<size_t> candidates(best_of);
    std::iota(candidates.begin(), candidates.end(), first);
    if (request_.n < request_.best_of) {
      std::ranges::stable_sort(candidates, std::greater(), mean_logprob);
    }
    for (size_t i = 0; i < static_cast<size_t>(request_.n); ++i) {
      views.push_back(View(static_cast<int64_t>(views.size()), choices_[candidates[i]].whole));
    }
  }
  return views;
}

void CompletionSession::Fail(const ApiError& error) {
  if (std::exchange(done_, true)) return;
  failed_ = true;
  metrics_.OnRequestFailed(error.status);
  RecordPartialUsage();
  if (stream_ == nullptr) return responder_->Respond(MakeError(error));
  WriteEvents(stream_->Fail(error));
  responder_->Finish();
}

void CompletionSession::Abandon() {
  if (!std::exchange(done_, true)) RecordPartialUsage();
}

bool CompletionSession::HasOutput() const {
  return std::ranges::any_of(
      choices_, [this](const Choice& choice) { return choice.next_index > 0 || IsPooled(choice); });
}

void CompletionSession::RecordPartialUsage() {
  if (!HasOutput()) return;
  const Usage usage = CountUsage();
  metrics_.OnUsage(request_.common.tenant, usage.prompt_tokens, usage.completion_tokens);
}

// All candidates count. What later ones found cached is the first one's work. Of texts to embed or
// to classify, those do that have been.
Usage CompletionSession::CountUsage() const {
  Usage usage;
  if (!request_.is_pooled()) usage.prompt_tokens = request_.num_prompt_tokens();
  for (size_t i = 0; i < choices_.size(); ++i) {
    if (IsPooled(choices_[i])) usage.prompt_tokens += std::ssize(request_.prompts[i].tokens);
  }
  for (size_t i = 0; i < request_.prompts.size(); ++i) {
    usage.cached_tokens += choices_[i * static_cast<size_t>(request_.best_of)].num_cached;
  }
  if (request_.reasoning) usage.reasoning_tokens = 0;
  if (!request_.common.prediction.empty()) usage.prediction.emplace();
  for (const Choice& choice : choices_) {
    if (usage.prediction) {
      usage.prediction->num_accepted += choice.prediction.num_accepted;
      usage.prediction->num_rejected += choice.prediction.num_rejected;
    }
    usage.completion_tokens += choice.output.num_tokens();
    if (usage.reasoning_tokens) *usage.reasoning_tokens += choice.output.num_reasoning_tokens();
  }
  return usage;
}

ChoiceView CompletionSession::View(int64_t index, const ChoiceDelta& delta) const {
  return {.index = index,
          .delta = &delta,
          .with_logprobs = request_.logprobs,
          .with_token_ids = request_.return_token_ids};
}

}  // namespace aril::gateway
