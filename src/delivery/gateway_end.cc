#include "delivery/gateway_end.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace aril::delivery {

StatusOr<Effects> GatewayEnd::Open(wire::SequenceRequest request, SequenceCosts costs,
                                   TimePoint now) {
  if (live_.size() >= options_.max_live) {
    return ResourceExhausted(StrCat("the gateway has ", live_.size(),
                                    " requests in flight, its limit; try again later"));
  }
  const SequenceId id = request.sequence;
  request.attempt = 0;
  const auto [it, is_new] = live_.try_emplace(id);
  CHECK(is_new);
  Live& live = it->second;
  live.request = std::move(request);
  live.costs = std::move(costs);
  Effects effects;
  Submit(live, now, effects);
  return effects;
}

Effects GatewayEnd::Cancel(SequenceId sequence) {
  Effects effects;
  const auto found = live_.find(sequence);
  if (found == live_.end()) return effects;
  Live& live = found->second;
  if (live.runner.valid()) {
    effects.emplace_back(ReleaseOn{live.runner, {sequence, live.attempt}});
  }
  effects.emplace_back(CloseSequence{sequence});
  live_.erase(found);
  return effects;
}

size_t GatewayEnd::CountPlaced() const {
  return static_cast<size_t>(
      std::ranges::count_if(live_, [](const auto& entry) { return entry.second.runner.valid(); }));
}

wire::Submission GatewayEnd::SubmissionOf(const Live& live) const {
  const auto num_prompt = static_cast<int32_t>(live.request.prompt.size());
  const auto num_output = static_cast<int32_t>(live.output.size());
  return {.sequence = live.request.sequence,
          .gateway = options_.gateway,
          .tenant = live.request.tenant,
          // Pages are those of all; affinity is to the first.
          .adapter = live.request.adapters.empty() ? kBaseModel : live.request.adapters.front().id,
          .adapter_pages = live.costs.adapter_pages,
          .num_tokens = num_prompt + num_output,
          .num_generated = num_output,
          .max_tokens = num_prompt + live.request.max_tokens,
          .priority = live.request.priority,
          .attempt = live.attempt,
          .arrival = live.request.arrival,
          .failed_on = live.failed_on,
          .is_sibling = live.request.is_sibling,
          .prefix = live.costs.prefix};
}

bool GatewayEnd::IsAbandoned(TimePoint now) const {
  return without_scheduler_since_ &&
         now - *without_scheduler_since_ > options_.max_without_scheduler;
}

void GatewayEnd::Submit(Live& live, TimePoint now, Effects& effects) {
  live.heard = now;
  live.retry_at.reset();
  if (has_scheduler_) effects.emplace_back(SubmissionOf(live));
}

Effects GatewayEnd::OnPlacement(const wire::Placement& placement, TimePoint now) {
  Effects effects;
  if (placement.epoch < epoch_) return effects;
  epoch_ = placement.epoch;
  const auto found = live_.find(placement.sequence);
  if (found == live_.end()) {
    effects.emplace_back(CloseSequence{placement.sequence});
    return effects;
  }
  Live& live = found->second;
  if (placement.attempt != live.attempt + 1) return effects;
  if (live.runner.valid()) {
    effects.emplace_back(ReleaseOn{live.runner, {placement.sequence, live.attempt}});
  }
  live.attempt = placement.attempt;
  live.runner = placement.runner;
  live.heard = now;
  live.retry_at.reset();
  StartAttempt start = {.epoch = placement.epoch,
                        .gateway = options_.gateway,
                        .request = live.request,
                        .adapter_pages = live.costs.adapter_pages,
                        .output = live.output};
  start.request.attempt = live.attempt;
  effects.emplace_back(StartOn{placement.runner, std::move(start)});
  return effects;
}

Effects GatewayEnd::OnRefused(SequenceId sequence, const Status& status, TimePoint now) {
  Effects effects;
  const auto found = live_.find(sequence);
  if (found == live_.end() || found->second.runner.valid()) return effects;
  Live& live = found->second;
  // What the client has begun to read is not given up for a full queue.
  if (!live.output.empty() && status.code() != StatusCode::kInvalidArgument) {
    live.heard = now;
    return effects;
  }
  EndWithError(live, status, effects);
  return effects;
}

Effects GatewayEnd::OnScheduler(std::optional<Epoch> epoch, TimePoint now) {
  Effects effects;
  if (epoch && *epoch < epoch_) return effects;  // one of the past
  has_scheduler_ = epoch.has_value();
  if (!epoch) {
    if (!without_scheduler_since_) without_scheduler_since_ = now;
    return effects;
  }
  without_scheduler_since_.reset();
  epoch_ = *epoch;
  std::vector<SequenceId> waiting;
  for (const auto& [id, live] : live_) {
    if (!live.runner.valid()) waiting.push_back(id);
  }
  std::sort(waiting.begin(), waiting.end());
  for (const SequenceId id : waiting) Submit(live_.at(id), now, effects);
  return effects;
}

Effects GatewayEnd::OnToken(RunnerId runner, const wire::TokenEvent& event, TimePoint now) {
  Effects effects;
  const auto found = live_.find(event.sequence);
  if (found == live_.end() || found->second.attempt != event.attempt ||
      found->second.runner != runner) {
    effects.emplace_back(ReleaseOn{runner, {event.sequence, event.attempt}});
    return effects;
  }
  Live& live = found->second;
  const auto next = static_cast<int32_t>(live.output.size());
  if (event.index < next) return effects;  // repeated
  live.heard = now;
  // A gap; or the runner gave it up, which the client did not ask for.
  if (event.index > next || event.finish == wire::FinishReason::kCancelled) {
    effects.emplace_back(ReleaseOn{runner, {event.sequence, event.attempt}});
    FailAttempt(live, "", now, effects);
    return effects;
  }
  if (event.token) {
    live.output.push_back(*event.token);
    live.num_failures = 0;
  }
  if (event.finish) {
    End(live, event, effects);
  } else {
    effects.emplace_back(Deliver{event});
  }
  return effects;
}

Effects GatewayEnd::OnAttemptRefused(RunnerId runner, const AttemptRefused& refused,
                                     TimePoint now) {
  Effects effects;
  const auto found = live_.find(refused.sequence);
  if (found == live_.end() || found->second.attempt != refused.attempt ||
      found->second.runner != runner) {
    return effects;
  }
  FailAttempt(found->second, refused.reason, now, effects);
  return effects;
}

Effects GatewayEnd::OnRunnerBroken(RunnerId runner, TimePoint now) {
  Effects effects;
  std::vector<SequenceId> broken;
  for (const auto& [id, live] : live_) {
    if (live.runner == runner) broken.push_back(id);
  }
  std::sort(broken.begin(), broken.end());
  for (const SequenceId id : broken) FailAttempt(live_.at(id), "", now, effects);
  return effects;
}

Effects GatewayEnd::OnTick(TimePoint now) {
  Effects effects;
  const bool is_abandoned = IsAbandoned(now);
  std::vector<SequenceId> due;
  for (const auto& [id, live] : live_) {
    const Duration limit = live.runner.valid() ? options_.silence_limit : options_.resubmit_after;
    const bool is_due = live.retry_at ? now >= *live.retry_at : now - live.heard > limit;
    const bool is_new = !live.runner.valid() && live.output.empty();
    if (is_due || (is_abandoned && is_new)) due.push_back(id);
  }
  std::sort(due.begin(), due.end());
  for (const SequenceId id : due) {
    Live& live = live_.at(id);
    if (live.runner.valid()) {
      effects.emplace_back(ReleaseOn{live.runner, {id, live.attempt}});
      FailAttempt(live, "", now, effects);
    } else if (is_abandoned && live.output.empty()) {
      EndWithError(live,
                   Unavailable("there is no scheduler, or no runner, at present; try again later"),
                   effects);
    } else {
      Submit(live, now, effects);
    }
  }
  return effects;
}

const wire::SequenceRequest* GatewayEnd::Find(SequenceId sequence) const {
  const auto found = live_.find(sequence);
  return found == live_.end() ? nullptr : &found->second.request;
}

void GatewayEnd::FailAttempt(Live& live, const std::string& reason, TimePoint now,
                             Effects& effects) {
  live.failed_on = std::exchange(live.runner, RunnerId());
  if (++live.num_failures > options_.max_failures) {
    const std::string why = reason.empty() ? "" : StrCat(" (the last one says: ", reason, ")");
    return EndWithError(
        live,
        Unavailable(StrCat("the request failed on ", live.num_failures,
                           " runners, one after the other", why, "; try again later")),
        effects);
  }
  if (live.num_failures == 1) return Submit(live, now, effects);
  live.retry_at = now + options_.retry_after * (1 << std::min(live.num_failures - 2, 10));
}

void GatewayEnd::EndWithError(Live& live, const Status& status, Effects& effects) {
  wire::TokenEvent last;
  last.sequence = live.request.sequence;
  last.attempt = live.attempt;
  last.index = static_cast<int32_t>(live.output.size());
  last.finish = wire::FinishReason::kError;
  last.error = status;
  End(live, std::move(last), effects);
}

void GatewayEnd::End(Live& live, wire::TokenEvent last, Effects& effects) {
  const SequenceId id = live.request.sequence;
  effects.emplace_back(Deliver{std::move(last)});
  effects.emplace_back(CloseSequence{id});
  live_.erase(id);
}

}  // namespace aril::delivery
