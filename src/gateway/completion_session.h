// One request for completions in flight: from the token events of its sequences to its answer.

#ifndef ARIL_GATEWAY_COMPLETION_SESSION_H_
#define ARIL_GATEWAY_COMPLETION_SESSION_H_

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "gateway/answer_format.h"
#include "gateway/api_error.h"
#include "gateway/choice_output.h"
#include "gateway/completion_request.h"
#include "gateway/http_message.h"
#include "gateway/metrics.h"
#include "gateway/served_model.h"
#include "gateway/stop_strings.h"

namespace aril::gateway {

struct CompletionSessionOptions {
  CompletionRequest request;
  std::shared_ptr<const ServedModel> model;
  std::shared_ptr<HttpResponder> responder;
  std::string id;       // "cmpl-…", "chatcmpl-…", "resp_…", "msg_…", "embd-…"
  HttpHeaders headers;  // of the answer, besides its own
  ErrorStyle error_style = ErrorStyle::kOpenAi;
  TimePoint arrival;
  const Clock* clock = nullptr;  // outlives the session
  Metrics* metrics = nullptr;    // likewise
};

// On the server's thread, unless a method says otherwise.
class CompletionSession {
 public:
  explicit CompletionSession(CompletionSessionOptions options);
  // Choices hold references into the request.
  CompletionSession(const CompletionSession&) = delete;
  CompletionSession& operator=(const CompletionSession&) = delete;

  // The sequences are accepted: a stream's head goes out.
  void Start();

  // Takes an event of a choice that has not ended. Returns true if the choice's sequence must still
  // be cancelled at its port.
  bool OnEvent(int64_t choice_idx, wire::TokenEvent event);

  // Ends the answer with an error: as the response, or within a stream that has begun.
  void Fail(const ApiError& error);

  // Nobody wants the rest: nothing is written or counted any more. What has been generated counts.
  void Abandon();

  bool choice_ended(int64_t choice_idx) const {
    return choices_[static_cast<size_t>(choice_idx)].ended;
  }
  // The answer is complete, was ended by an error, or abandoned.
  bool done() const { return done_; }
  // It was ended by an error before anything had been generated, or embedded.
  bool came_to_nothing() const { return failed_ && !HasOutput(); }

  // The answer is complete but so long that whoever else the thread serves should not wait for it
  // to be put together: the responder has not got it.
  bool owes_answer() const { return owes_answer_; }
  // What it is owed. On any thread, once done.
  HttpResponse MakeAnswer() const;
  // What it gets in place of an answer.
  HttpResponse MakeError(const ApiError& error) const;

  const CompletionRequest& request() const { return request_; }
  const std::shared_ptr<HttpResponder>& responder() const { return responder_; }

 private:
  struct Choice {
    explicit Choice(ChoiceOutput choice_output) : output(std::move(choice_output)) {}
    ChoiceOutput output;
    ChoiceDelta whole;  // what has been said so far, unless streaming
    double sum_logprobs = 0;
    int32_t next_index = 0;
    int32_t num_cached = 0;  // tokens of the prompt
    PredictionTokens prediction;
    TimePoint last_token;
    bool ended = false;
  };

  // Of an answer that is no error.
  HttpHeaders Headers() const;
  bool AcceptIndex(Choice& choice, const wire::TokenEvent& event);
  bool AcceptPooled(const wire::TokenEvent& event);
  void RecordToken(Choice& choice);
  void Deliver(int64_t choice_idx, ChoiceDelta delta);
  void WriteEvents(const std::string& events);
  void Complete();
  std::vector<ChoiceView> BestChoices() const;
  Usage CountUsage() const;
  bool HasOutput() const;
  bool IsPooled(const Choice& choice) const {
    return request_.is_pooled() && choice.whole.finish.has_value();
  }
  // Of an answer that was cut short: what its tenant has got of it, from the first token on.
  void RecordPartialUsage();
  bool IsLong() const;
  ChoiceView View(int64_t index, const ChoiceDelta& delta) const;

  const CompletionRequest request_;
  const std::shared_ptr<const ServedModel> model_;
  const std::shared_ptr<HttpResponder> responder_;
  const HttpHeaders headers_;
  const ErrorStyle error_style_;
  const TimePoint arrival_;
  const Clock& clock_;
  Metrics& metrics_;
  const StopStrings stop_strings_;
  const std::unique_ptr<const AnswerFormat> format_;
  std::unique_ptr<AnswerStream> stream_;  // once it has begun; null: the answer comes at once
  std::vector<Choice> choices_;           // by candidate
  int64_t num_ended_ = 0;
  bool done_ = false;
  bool failed_ = false;
  bool owes_answer_ = false;
};

}  // namespace aril::gateway

#endif  // ARIL_GATEWAY_COMPLETION_SESSION_H_
