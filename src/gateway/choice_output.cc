#include "gateway/choice_output.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"
#include "base/utf8.h"
#include "gateway/channel_parser.h"
#include "gateway/reasoning_parser.h"
#include "gateway/text.h"
#include "grammar/free_text.h"

namespace aril::gateway {
namespace {

// True if no token of the prompt has text, so that the output starts the text.
bool HasNoText(std::span<const int32_t> prompt, const Tokenizer& tokenizer) {
  return std::all_of(prompt.begin(), prompt.end(),
                     [&](int32_t id) { return tokenizer.IsSpecial(id); });
}

// Of a token on its own.
std::string TokenBytes(const Tokenizer& tokenizer, int32_t id) {
  return tokenizer.TokenBytes(id, /*is_first=*/false, /*skip_special_tokens=*/false);
}

bool Contains(const std::vector<int32_t>& tokens, int32_t token) {
  return std::ranges::find(tokens, token) != tokens.end();
}

// Whether special tokens are left out here, and not by the detokenizer: some say where reasoning
// and calls are. Of text with calls no others are shown, whatever the request says.
bool HidesSpecialTokens(const CompletionRequest& request) {
  const bool has_some = request.reasoning && !request.reasoning->special_tokens.empty();
  return request.tool_calls.has_value() || (request.skip_special_tokens && has_some);
}

std::unique_ptr<ReasoningReader> MakeReader(const ReasoningReading& reading,
                                            const std::optional<ToolCallReading>& calls) {
  if (!reading.syntax.is_in_channels()) {
    return std::make_unique<ReasoningParser>(reading.syntax, reading.has_begun);
  }
  return std::make_unique<ChannelParser>(calls ? &calls->syntax : nullptr, reading.has_begun);
}

}  // namespace

ChoiceOutput::ChoiceOutput(const CompletionRequest& request, const CompletionPrompt& prompt,
                           const StopStrings& stop_strings, const Tokenizer& tokenizer)
    : request_(request),
      prompt_(prompt),
      tokenizer_(tokenizer),
      hides_special_tokens_(HidesSpecialTokens(request)),
      // Of a text with a format nothing is dropped, not even a blank at its beginning.
      detokenizer_(tokenizer, request.skip_special_tokens && !hides_special_tokens_,
                   request.common.format.is_text() && HasNoText(prompt.tokens, tokenizer)),
      matcher_(stop_strings),
      is_in_channels_(request.reasoning && request.reasoning->syntax.is_in_channels()) {
  if (request.tool_calls) {
    tool_calls_.emplace(request.tool_calls->syntax, request.tool_calls->only_at_start,
                        &request.tool_calls->argument_types);
  }
  if (request.reasoning) reasoning_ = MakeReader(*request.reasoning, request.tool_calls);
}

ChoiceDelta ChoiceOutput::Append(wire::TokenEvent event) {
  ChoiceDelta delta;
  if (!std::exchange(started_, true)) AppendPrompt(event, &delta);
  if (request_.prompt_only(prompt_)) {
    if (event.finish) delta.finish = wire::FinishReason::kLength;
    if (request_.embedding) {
      event.pooled.resize(static_cast<size_t>(request_.embedding->dimensions));
    }
    delta.pooled = std::move(event.pooled);
    delta.label = std::move(event.label);
    return delta;
  }
  if (event.token) AppendToken(event, &delta);
  if (stop_string_) {
    delta.cancel = !event.finish.has_value();
    End(wire::FinishReason::kStop, &delta);
  } else if (event.finish) {
    End(*event.finish, &delta);
  }
  if (reasoning_) FindReasoning(&delta);
  if (tool_calls_) FindCalls(&delta);
  if (is_between_) {
    delta.text = StripLeft(delta.text);
    is_between_ = delta.text.empty();
  }
  return delta;
}

void ChoiceOutput::FindReasoning(ChoiceDelta* delta) {
  const bool was_over = reasoning_->is_over();
  ReasonedText found = reasoning_->Append(delta->text);
  if (reasoning_->was_reasoning()) {
    // Where it may come again behind text, that does not count.
    num_reasoning_tokens_ = is_in_channels_ ? num_reasoning_tokens_ + 1 : num_tokens_;
  }
  is_between_ |= !was_over && reasoning_->is_behind();
  if (delta->finish) {
    const ReasonedText rest = reasoning_->Flush();
    found.reasoning += rest.reasoning;
    found.answer += rest.answer;
    found.calls += rest.calls;
  }
  calls_text_ = std::move(found.calls);
  if (request_.reasoning->is_shown) delta->reasoning = std::move(found.reasoning);
  delta->text = std::move(found.answer);
}

void ChoiceOutput::FindCalls(ChoiceDelta* delta) {
  ToolText found = tool_calls_->Append(is_in_channels_ ? calls_text_ : delta->text);
  if (delta->finish) {
    delta->ends_with_calls = *delta->finish == wire::FinishReason::kStop &&
                             !request_.tool_calls->is_named && tool_calls_->has_whole_calls();
    found.content += tool_calls_->Flush();
  }
  if (!is_in_channels_) delta->text = std::move(found.content);
  delta->tool_calls = std::move(found.calls);
}

void ChoiceOutput::AppendPrompt(const wire::TokenEvent& event, ChoiceDelta* delta) {
  if (!request_.echo) return;
  delta->text = prompt_.text;
  // Offsets follow the tokens' own texts; special tokens that the text does not show have none.
  for (size_t i = 0; i < event.prompt_logprobs.size() && i < prompt_.tokens.size(); ++i) {
    LogprobEntry entry = MakeEntry(prompt_.tokens[i], event.prompt_logprobs[i]);
    entry.has_logprobs = i > 0;
    const std::string bytes =
        tokenizer_.TokenBytes(prompt_.tokens[i], offset_ == 0, request_.skip_special_tokens);
    offset_ += CountCodePoints(bytes);
    delta->logprobs.push_back(std::move(entry));
  }
  offset_ = CountCodePoints(prompt_.text);
}

void ChoiceOutput::AppendToken(const wire::TokenEvent& event, ChoiceDelta* delta) {
  ++num_tokens_;
  delta->token_ids.push_back(*event.token);
  if (event.logprobs) {
    pending_logprobs_.push_back({MakeEntry(*event.token, *event.logprobs), produced_bytes_});
  }
  // The token that ends the sequence is not part of its text, unless the request wants that.
  const bool is_end = event.stop_token && !request_.includes_stop;
  if (is_end || IsHidden(*event.token)) return;
  AddText(TextOf(*event.token), delta);
}

std::string ChoiceOutput::TextOf(int32_t token) {
  std::string text = detokenizer_.Append(token);
  if (!is_in_channels_) return text;
  using grammar::kSpecialTokenMark;
  if (tokenizer_.IsSpecial(token)) {
    const std::string own = TokenBytes(tokenizer_, token);
    if (!text.ends_with(own)) return text;
    text.resize(text.size() - own.size());
    return StrCat(text, kSpecialTokenMark, own, kSpecialTokenMark);
  }
  // Of the marks' own character, which is none, another one that says so.
  for (size_t at = 0; (at = text.find(kSpecialTokenMark, at)) != std::string::npos;) {
    text.replace(at, kSpecialTokenMark.size(), "\uFFFD");
  }
  return text;
}

bool ChoiceOutput::IsHidden(int32_t token) const {
  if (!hides_special_tokens_ || !tokenizer_.IsSpecial(token)) return false;
  if (request_.tool_calls && Contains(request_.tool_calls->special_tokens, token)) return false;
  // Those of reasoning are of no use behind it.
  return !reasoning_ || reasoning_->is_over() ||
         !Contains(request_.reasoning->special_tokens, token);
}

void ChoiceOutput::AddText(const std::string& text, ChoiceDelta* delta) {
  CHECK(!stop_string_);
  produced_bytes_ += text.size();
  offset_ += CountCodePoints(text);
  // What comes before min_tokens ends nothing, whole or as a stop string's beginning.
  const bool may_stop = num_tokens_ > request_.common.min_tokens;
  StopMatcher::Result result =
      may_stop ? matcher_.Append(text) : StopMatcher::Result{.released = text};
  if (result.match && request_.includes_stop) result.released += *result.match;
  released_bytes_ += result.released.size();
  stop_string_ = std::move(result.match);
  delta->text += result.released;
  ReleaseLogprobs(/*all=*/false, delta);
}

void ChoiceOutput::End(wire::FinishReason reason, ChoiceDelta* delta) {
  if (!stop_string_) AddText(detokenizer_.Flush(), delta);
  if (stop_string_) {
    delta->stop_string = stop_string_;
    delta->finish = wire::FinishReason::kStop;
    return;
  }
  delta->text += matcher_.Flush();
  ReleaseLogprobs(/*all=*/true, delta);
  delta->finish = reason;
}

void ChoiceOutput::ReleaseLogprobs(bool all, ChoiceDelta* delta) {
  while (!pending_logprobs_.empty() &&
         (all || pending_logprobs_.front().start_bytes < released_bytes_)) {
    delta->logprobs.push_back(std::move(pending_logprobs_.front().entry));
    pending_logprobs_.pop_front();
  }
}

LogprobEntry ChoiceOutput::MakeEntry(int32_t token, const wire::Logprobs& logprobs) const {
  LogprobEntry entry = {.bytes = TokenBytes(tokenizer_, token),
                        .text_offset = offset_,
                        .logprobs = logprobs,
                        .top = {}};
  for (const wire::TokenLogprob& top : logprobs.top) {
    entry.top.push_back(TokenBytes(tokenizer_, top.token));
  }
  return entry;
}

}  // namespace aril::gateway
