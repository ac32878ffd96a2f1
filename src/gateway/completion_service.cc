#include "gateway/completion_service.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"
#include "gateway/anthropic_messages.h"
#include "gateway/chat_completions.h"
#include "gateway/classify.h"
#include "gateway/completions.h"
#include "gateway/embeddings.h"
#include "gateway/rate_limit_fields.h"
#include "gateway/responses.h"

namespace aril::gateway {
namespace {

ApiResult<CompletionRequest> ParseRequest(Endpoint endpoint, const std::string& body,
                                          const RequestContext& context) {
  switch (endpoint) {
    case Endpoint::kCompletions:
      return ParseCompletionRequest(body, context);
    case Endpoint::kChat:
      return ParseChatRequest(body, context);
    case Endpoint::kResponses:
      return ParseResponsesRequest(body, context);
    case Endpoint::kMessages:
      return ParseMessagesRequest(body, context);
    case Endpoint::kEmbeddings:
      return ParseEmbeddingsRequest(body, context);
    case Endpoint::kClassify:
      return ParseClassifyRequest(body, context);
  }
  CHECK(false);
}

// What a library throws (out of memory above all) harms this request alone.
ApiResult<CompletionRequest> ParseSafely(Endpoint endpoint, const std::string& body,
                                         const RequestContext& context) {
  try {
    return ParseRequest(endpoint, body, context);
  } catch (const std::exception& exception) {
    LogError(StrCat("a request could not be parsed: ", exception.what()));
    return FromStatus(Internal("The request could not be processed."));
  }
}

// Of the requests in work, how many may wait for adapters at most: the others go on.
int64_t MaxWaiting(int64_t max_in_flight) { return std::max<int64_t>(1, max_in_flight / 4); }

HttpResponse AnswerSafely(const CompletionSession& session) {
  try {
    return session.MakeAnswer();
  } catch (const std::exception& exception) {
    LogError(StrCat("an answer could not be put together: ", exception.what()));
    return session.MakeError(FromStatus(Internal("The answer could not be put together.")));
  }
}

const char* IdPrefix(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kCompletions:
      return "cmpl-";
    case Endpoint::kChat:
      return "chatcmpl-";
    case Endpoint::kResponses:
      return "resp_";
    case Endpoint::kMessages:
      return "msg_";
    case Endpoint::kEmbeddings:
      return "embd-";
    case Endpoint::kClassify:
      return "classify-";
  }
  CHECK(false);
}

ApiError TooMany(int64_t num_in_flight) {
  return Overloaded(
      StrCat("The server has ", num_in_flight, " requests in work. Please try again."));
}

}  // namespace

struct CompletionService::Pending {
  Pending(Endpoint its_endpoint, ApiCall its_call, TimePoint its_arrival)
      : endpoint(its_endpoint), call(std::move(its_call)), arrival(its_arrival) {}

  const Endpoint endpoint;
  const ApiCall call;
  const TimePoint arrival;
  std::atomic<bool> gone = false;  // the client went away, or has its answer
  bool answered = false;
  std::optional<LoadWaiters::Ticket> wait;  // for an adapter
};

CompletionService::CompletionService(CompletionServiceOptions options)
    : options_(std::move(options)),
      waiters_(static_cast<size_t>(MaxWaiting(options_.max_in_flight)), options_.post,
               options_.post_after),
      rates_(options_.tenant_limits),
      inbox_(options_.post, *options_.metrics,
             [this](std::vector<wire::TokenEvent> events) { OnEvents(std::move(events)); }) {}

void CompletionService::Serve(std::shared_ptr<const ServedModel> model, wire::SequencePort* port,
                              AdapterLoads* loads) {
  model_ = std::move(model);
  port_ = port;
  loads_ = loads;
}

void CompletionService::Handle(Endpoint endpoint, ApiCall call) {
  CHECK(port_ != nullptr);
  auto error = CheckInFlight(call.tenant);
  if (!error) error = TakeRequest(call.tenant);
  if (error) return TurnAway(call, *error);
  auto pending = std::make_shared<Pending>(endpoint, std::move(call), options_.clock->Now());
  pending->call.responder->OnDisconnect([this, weak = std::weak_ptr(pending)] {
    const auto gone = weak.lock();
    if (gone == nullptr) return;
    gone->gone = true;
    if (!gone->wait.has_value()) return;
    waiters_.Cancel(*gone->wait);
    gone->wait.reset();
    pending_.erase(gone);
    AddInFlight(gone->call.tenant, -1);
    options_.metrics->OnRequestCancelled();
  });
  if (!Parse(pending)) {
    rates_.GiveBack(pending->call.tenant, 0);
    return TurnAway(pending->call, QueueIsFull());
  }
  pending_.insert(pending);
  AddInFlight(pending->call.tenant, 1);
}

bool CompletionService::Parse(const std::shared_ptr<Pending>& pending) {
  WorkQueue& queue = options_.work->ForBody(pending->call.request.body.size());
  return queue.TryPush(Parsing(pending, /*may_open=*/false), pending->call.tenant);
}

bool CompletionService::ParseOpening(AdapterId adapter, const std::shared_ptr<Pending>& pending) {
  return options_.openings->TryPush(Parsing(pending, /*may_open=*/true), StrCat(adapter));
}

std::function<void()> CompletionService::Parsing(const std::shared_ptr<Pending>& pending,
                                                 bool may_open) {
  return [this, pending, may_open, model = model_, loads = loads_, draw = options_.random()] {
    ApiResult<CompletionRequest> parsed = ApiError();  // if nobody wants to know any more
    if (!pending->gone) {
      parsed = ParseSafely(pending->endpoint, pending->call.request.body,
                           {.model = *model,
                            .limits = options_.limits,
                            .tenant = pending->call.tenant,
                            .unix_seconds = options_.clock->UnixSeconds(),
                            .draw = draw,
                            .loads = loads,
                            .may_open = may_open});
    }
    options_.post([this, pending, parsed = std::make_shared<decltype(parsed)>(std::move(parsed))] {
      OnParsed(pending, std::move(*parsed));
    });
  };
}

void CompletionService::OnParsed(std::shared_ptr<Pending> pending,
                                 ApiResult<CompletionRequest> parsed) {
  if (pending->gone || closed_.has_value()) return Refuse(pending, closed_.value_or(ApiError()));
  if (parsed.ok()) {
    if (const auto error = TakePrompts(parsed.value())) return Refuse(pending, *error);
    return Begin(std::move(pending), std::move(parsed.value()));
  }
  if (WaitForLoad(pending, parsed.error())) return;
  const auto closed = parsed.error().closed_adapter;
  if (closed.has_value() && ParseOpening(*closed, pending)) return;
  Refuse(pending, parsed.error());
}

void CompletionService::Refuse(const std::shared_ptr<Pending>& pending, const ApiError& error) {
  pending_.erase(pending);
  AddInFlight(pending->call.tenant, -1);
  if (pending->answered) return;
  if (pending->gone) return options_.metrics->OnRequestCancelled();
  if (error.status >= 500) rates_.GiveBack(pending->call.tenant, 0);
  options_.metrics->OnRequestFailed(error.status);
  pending->call.responder->Respond(Refusal(pending->call, error));
}

bool CompletionService::WaitForLoad(const std::shared_ptr<Pending>& pending,
                                    const ApiError& error) {
  if (error.awaited_model.empty()) return false;
  // A name whose loads replace one another is not waited for longer.
  const Duration left = options_.max_load_wait - (options_.clock->Now() - pending->arrival);
  if (left <= Duration::zero()) return false;
  pending->wait = waiters_.Wait(
      *loads_, pending->call.tenant, error.awaited_model, left,
      [this, pending, error](LoadWaiters::Outcome outcome) { OnWaited(pending, error, outcome); });
  return pending->wait.has_value();
}

void CompletionService::OnWaited(const std::shared_ptr<Pending>& pending, const ApiError& error,
                                 LoadWaiters::Outcome outcome) {
  pending->wait.reset();
  const bool is_over = outcome == LoadWaiters::Outcome::kOver;
  if (!is_over || !Parse(pending)) Refuse(pending, error);
}

void CompletionService::Begin(std::shared_ptr<Pending> pending, CompletionRequest request) {
  pending_.erase(pending);
  auto live =
      std::make_shared<Live>(CompletionSessionOptions{.request = std::move(request),
                                                      .model = model_,
                                                      .responder = pending->call.responder,
                                                      .id = NewId(pending->endpoint),
                                                      .headers = RateFields(pending->call.tenant),
                                                      .error_style = pending->call.error_style(),
                                                      .arrival = pending->arrival,
                                                      .clock = options_.clock,
                                                      .metrics = options_.metrics});
  if (const Status status = SubmitMore(live, pending->arrival); !status.ok()) {
    live->session.Fail(FromStatus(status));
    return Release(live);
  }
  live->session.responder()->OnDisconnect([this, weak = std::weak_ptr(live)] {
    if (const auto gone = weak.lock()) OnDisconnect(gone);
  });
  live->session.Start();
}

Status CompletionService::SubmitMore(const std::shared_ptr<Live>& live, TimePoint arrival) {
  const CompletionRequest& request = live->session.request();
  for (auto i = std::ssize(live->sequences);
       i < request.num_candidates() && live->num_running < options_.limits.max_sequences; ++i) {
    const SequenceId sequence(next_sequence_++);
    // Before the submission: its events may be on their way when Submit returns.
    live->sequences.push_back(sequence);
    targets_[sequence] = {live, i};
    Status status = port_->Submit(MakeSequence(request, i, sequence, options_.random(), arrival));
    if (!status.ok()) {
      targets_.erase(sequence);
      live->sequences.pop_back();
      const bool is_for_now = status.code() == StatusCode::kResourceExhausted ||
                              status.code() == StatusCode::kUnavailable;
      return is_for_now && request.is_pooled() && live->num_running > 0 ? OkStatus() : status;
    }
    ++live->num_running;
  }
  return OkStatus();
}

void CompletionService::OnEvents(std::vector<wire::TokenEvent> events) {
  for (wire::TokenEvent& event : events) {
    const auto found = targets_.find(event.sequence);
    if (found == targets_.end()) continue;  // cancelled meanwhile
    const Target target = found->second;
    try {
      OnEvent(target, std::move(event));
    } catch (const std::exception& exception) {
      OnBadEvent(target.live, exception);
    }
  }
}

void CompletionService::OnBadEvent(const std::shared_ptr<Live>& live,
                                   const std::exception& exception) {
  try {
    owed_.erase(live);
    Release(live);
    LogError(StrCat("a request had to be ended: ", exception.what()));
    live->session.Fail(FromStatus(Internal("The request could not be processed.")));
  } catch (const std::exception& again) {  // the other requests' events go on
    LogError(again.what());
  }
}

void CompletionService::OnEvent(const Target& target, wire::TokenEvent event) {
  const SequenceId sequence = event.sequence;
  CompletionSession& session = target.live->session;
  const bool ended = event.finish.has_value();
  if (event.token) {
    rates_.TakeOutput(session.request().common.tenant, 1, options_.clock->Now());
  }
  if (session.OnEvent(target.choice_idx, std::move(event))) port_->Cancel(sequence);
  if (ended || session.choice_ended(target.choice_idx)) {
    targets_.erase(sequence);
    --target.live->num_running;
    // What comes later stands behind whoever has come meanwhile.
    const Status status =
        session.done() ? OkStatus() : SubmitMore(target.live, options_.clock->Now());
    if (!status.ok()) session.Fail(FromStatus(status));
  }
  if (!session.done()) return;
  if (session.owes_answer()) return AnswerLater(target.live);
  Release(target.live);
}

void CompletionService::AnswerLater(const std::shared_ptr<Live>& live) {
  owed_.insert(live);
  const auto respond = [this, live](HttpResponse response) {
    if (owed_.erase(live) == 0) return;  // it has been told something else
    Release(live);
    live->session.responder()->Respond(std::move(response));
  };
  const bool queued = options_.work->ForAnswers().TryPush([this, live, respond] {
    const auto response = std::make_shared<HttpResponse>(AnswerSafely(live->session));
    options_.post([respond, response] { respond(std::move(*response)); });
  });
  if (!queued) respond(AnswerSafely(live->session));
}

void CompletionService::OnDisconnect(const std::shared_ptr<Live>& live) {
  if (live->session.done()) return;
  live->session.Abandon();
  options_.metrics->OnRequestCancelled();
  Release(live);
}

void CompletionService::Release(const std::shared_ptr<Live>& live) {
  if (std::exchange(live->released, true)) return;
  for (const SequenceId sequence : live->sequences) {
    if (targets_.erase(sequence) > 0) port_->Cancel(sequence);
  }
  live->sequences.clear();
  const CompletionRequest& request = live->session.request();
  if (live->session.came_to_nothing()) {
    rates_.GiveBack(request.common.tenant, request.num_prompt_tokens());
  }
  AddInFlight(request.common.tenant, -1);
}

void CompletionService::FailAll(const ApiError& error) {
  closed_ = error;
  waiters_.EndAll(LoadWaiters::Outcome::kTimeIsUp);
  while (!targets_.empty()) {
    const std::shared_ptr<Live> live = targets_.begin()->second.live;
    live->session.Fail(error);
    Release(live);
  }
  for (const auto& live : std::exchange(owed_, {})) {
    Release(live);
    live->session.responder()->Respond(live->session.MakeError(error));
  }
  // What still parses them finds that nobody waits.
  for (const auto& pending : pending_) {
    if (pending->gone.exchange(true)) continue;
    pending->answered = true;
    options_.metrics->OnRequestFailed(error.status);
    pending->call.Fail(error);
  }
}

void CompletionService::TurnAway(const ApiCall& call, const ApiError& error) {
  options_.metrics->OnRequestFailed(error.status);
  call.responder->Respond(Refusal(call, error));
}

HttpResponse CompletionService::Refusal(const ApiCall& call, const ApiError& error) const {
  HttpResponse response = ErrorResponse(error, call.error_style());
  std::ranges::move(RateFields(call.tenant), std::back_inserter(response.headers));
  return response;
}

HttpHeaders CompletionService::RateFields(const std::string& tenant) const {
  const TimePoint now = options_.clock->Now();
  return RateLimitFields(rates_.Requests(tenant, now), rates_.Tokens(tenant, now));
}

std::optional<ApiError> CompletionService::TakeRequest(const std::string& tenant) {
  return ErrorOf(tenant, rates_.TakeRequest(tenant, options_.clock->Now()));
}

std::optional<ApiError> CompletionService::TakePrompts(const CompletionRequest& request) {
  const std::string& tenant = request.common.tenant;
  return ErrorOf(tenant,
                 rates_.TakePrompts(tenant, request.num_prompt_tokens(), options_.clock->Now()));
}

std::optional<ApiError> CompletionService::ErrorOf(const std::string& tenant,
                                                   const std::optional<RateExcess>& excess) {
  if (!excess) return std::nullopt;
  options_.metrics->OnLimitReached(tenant, StrCat(NameOf(excess->kind), "-per-minute"));
  return RateLimitReached(*excess);
}

std::optional<ApiError> CompletionService::CheckInFlight(const std::string& tenant) const {
  if (num_in_flight_ >= options_.max_in_flight) return TooMany(num_in_flight_);
  const int64_t max_of_tenant =
      std::min(options_.max_in_flight_of_tenant,
               rates_.LimitsOf(tenant).concurrent_requests.value_or(INT64_MAX));
  const auto of_tenant = in_flight_of_.find(tenant);
  if (of_tenant == in_flight_of_.end() || of_tenant->second < max_of_tenant) return std::nullopt;
  options_.metrics->OnLimitReached(tenant, "concurrent-requests");
  return TooManyOfTenant(StrCat("You have ", of_tenant->second,
                                " requests in work, which is all that one tenant may have. "
                                "Please try again when one of them has ended."));
}

void CompletionService::AddInFlight(const std::string& tenant, int64_t change) {
  num_in_flight_ += change;
  const auto of_tenant = in_flight_of_.try_emplace(tenant).first;
  of_tenant->second += change;
  if (of_tenant->second == 0) in_flight_of_.erase(of_tenant);
  options_.metrics->SetRequestsInFlight(num_in_flight_);
}

std::string CompletionService::NewId(Endpoint endpoint) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string id = IdPrefix(endpoint);
  for (int half = 0; half < 2; ++half) {
    const uint64_t bits = options_.random();
    for (int shift = 60; shift >= 0; shift -= 4) id.push_back(kHex[(bits >> shift) & 15]);
  }
  return id;
}

}  // namespace aril::gateway
