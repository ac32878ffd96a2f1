#include "simulate/stream_checker.h"

#include "base/mix64.h"
#include "base/strings.h"
#include "simulate/runner_model.h"

namespace aril::simulate {

void StreamChecker::Violate(TimePoint now, const std::string& what) {
  if (!violation_.empty()) return;
  const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  violation_ = StrCat("at ", seconds, " s: ", what);
}

void StreamChecker::Fold(uint64_t value) { digest_ = Mix64(digest_, value); }

void StreamChecker::OnOpen(const wire::SequenceRequest& request, int64_t adapter_pages,
                           int gateway_node, TimePoint now) {
  ClientStream& stream = streams_[request.sequence];
  stream.num_prompt = static_cast<int64_t>(request.prompt.size());
  stream.max_tokens = request.max_tokens;
  stream.adapter = request.adapters.empty() ? kBaseModel : request.adapters.front().id;
  stream.adapter_pages = adapter_pages;
  stream.gateway_node = gateway_node;
  stream.opened = now;
}

void StreamChecker::OnStart(const delivery::StartAttempt& start, RunnerId runner, TimePoint now) {
  ClientStream& stream = streams_.at(start.request.sequence);
  if (start.request.attempt <= stream.attempt) {
    Violate(now, StrCat("attempt ", start.request.attempt, " of sequence ", start.request.sequence,
                        " was begun after attempt ", stream.attempt));
  }
  if (stream.attempt == 0) stream.started = now;
  stream.attempt = start.request.attempt;
  stream.runner = runner;
  if (static_cast<int64_t>(start.output.size()) != stream.num_tokens) {
    Violate(now, StrCat("sequence ", start.request.sequence, " is resumed with ",
                        start.output.size(), " tokens; its client has ", stream.num_tokens));
  }
}

void StreamChecker::OnSent(const wire::TokenEvent& event, TimePoint now) {
  const ClientStream& stream = streams_.at(event.sequence);
  if (event.token && *event.token != ModelToken(event.sequence, stream.num_prompt + event.index)) {
    Violate(now, StrCat("a runner sent another token for index ", event.index, " of sequence ",
                        event.sequence));
  }
  if (event.index >= stream.max_tokens) {
    Violate(now, StrCat("a runner went beyond max_tokens of sequence ", event.sequence));
  }
}

void StreamChecker::OnDelivered(const wire::TokenEvent& event, uint32_t sent_attempt,
                                TimePoint now) {
  ClientStream& stream = streams_.at(event.sequence);
  Fold(Mix64(static_cast<uint64_t>(event.sequence.value()), static_cast<uint64_t>(event.index)));
  if (stream.end != StreamEnd::kLive) {
    Violate(now, StrCat("sequence ", event.sequence, " got a token after its end"));
  }
  if (event.finish == wire::FinishReason::kError)
    return OnEnd(event.sequence, StreamEnd::kError, now);
  if (sent_attempt != stream.attempt) {
    Violate(now, StrCat("a token of attempt ", sent_attempt, " of sequence ", event.sequence,
                        " was delivered; the present one is ", stream.attempt));
  }
  if (event.index != stream.num_tokens) {
    Violate(now, StrCat("sequence ", event.sequence, " got index ", event.index, " after ",
                        stream.num_tokens, " tokens"));
  }
  if (event.token) {
    if (*event.token != ModelToken(event.sequence, stream.num_prompt + stream.num_tokens)) {
      Violate(now, StrCat("sequence ", event.sequence, " got a wrong token at index ",
                          stream.num_tokens));
    }
    if (stream.num_tokens == 0) stream.first_token = now;
    ++stream.num_tokens;
    ++num_tokens_;
  }
  if (!event.finish) return;
  if (stream.num_tokens != stream.max_tokens) {
    Violate(now, StrCat("sequence ", event.sequence, " ended with ", stream.num_tokens, " of ",
                        stream.max_tokens, " tokens"));
  }
  OnEnd(event.sequence, StreamEnd::kFinished, now);
}

void StreamChecker::OnEnd(SequenceId sequence, StreamEnd end, TimePoint now) {
  ClientStream& stream = streams_.at(sequence);
  if (stream.end != StreamEnd::kLive) return;
  stream.end = end;
  stream.ended = now;
  ++counts_[static_cast<size_t>(end)];
  ++num_ended_;
}

}  // namespace aril::simulate
