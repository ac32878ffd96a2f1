#include "cluster/gateway_node.h"

#include <algorithm>
#include <set>

#include "base/checked.h"
#include "base/log.h"
#include "base/retry_after.h"
#include "base/strings.h"
#include "spec/lora_spec.h"

namespace aril::cluster {
namespace {

delivery::GatewayEndOptions EndOptions(const GatewayNodeOptions& options) {
  delivery::GatewayEndOptions end = options.end;
  end.gateway = GatewayId(options.hello.id);
  return end;
}

}  // namespace

GatewayNode::GatewayNode(GatewayNodeOptions options, Links& links, wire::EventSink& sink)
    : options_(std::move(options)),
      links_(links),
      sink_(sink),
      end_(EndOptions(options_)),
      scheduler_links_(links, options_.redial_after),
      runner_links_(links, options_.redial_after) {
  for (const std::string& address : options_.schedulers) scheduler_links_.Add(address);
}

Hello GatewayNode::OwnHello() const {
  Hello hello = options_.hello;
  hello.epoch = std::max(Epoch(0), end_.epoch());
  return hello;
}

void GatewayNode::Submit(wire::SequenceRequest request, TimePoint now) {
  const SequenceId local = request.sequence;
  const SequenceId id = MakeSequenceId(GatewayId(options_.hello.id), next_number_);
  // After four billion sequences the numbers begin anew; the old ones have long gone.
  ++next_number_;
  request.sequence = id;
  in_cluster_[local] = id;
  in_process_[id] = local;
  delivery::SequenceCosts costs = CostsOf(request);
  auto effects = end_.Open(std::move(request), std::move(costs), now);
  if (effects.ok()) {
    Perform(*effects);
  } else {
    wire::TokenEvent refused;
    refused.sequence = id;
    refused.finish = wire::FinishReason::kError;
    refused.error = effects.status();
    Deliver(std::move(refused));
  }
  Flush(false);
}

void GatewayNode::Cancel(SequenceId sequence) {
  const auto found = in_cluster_.find(sequence);
  if (found == in_cluster_.end()) return;
  const SequenceId id = found->second;
  in_process_.erase(id);
  in_cluster_.erase(found);
  class_of_.erase(id);
  Perform(end_.Cancel(id));
}

// What adapters take is known once a runner has said so. Before, nothing can be placed anyway. A
// prompt that does not invoke what it should is refused by whatever runner it comes to.
delivery::SequenceCosts GatewayNode::CostsOf(const wire::SequenceRequest& request) const {
  int64_t pages = 0;
  std::vector<AdapterFrom> adapters;
  for (const AdapterUse& use : request.adapters) {
    const auto index = static_cast<size_t>(use.id.value());
    std::vector<int32_t> invocation_tokens;
    if (use.id >= delivery::kFirstSharedAdapter && options_.find_shared) {
      if (auto shared = options_.find_shared(use.id, request.tenant)) {
        if (page_bytes_ > 0) pages += CeilDiv(shared->pool_bytes, page_bytes_);
        invocation_tokens = std::move(shared->invocation_tokens);
      }
    } else {
      if (index < adapter_pages_.size()) pages += adapter_pages_[index];
      if (index < options_.invocation_tokens.size()) {
        invocation_tokens = options_.invocation_tokens[index];
      }
    }
    adapters.push_back(
        {.use = use, .first_token = FindInvocation(invocation_tokens, request.prompt).value_or(0)});
  }
  delivery::SequenceCosts costs = {.adapter_pages = pages};
  // Who wants to know of each token of the prompt has all of it computed.
  if (!request.sampling.prompt_logprobs) {
    costs.prefix = wire::MarkPrefixes(adapters, request.prompt);
  }
  return costs;
}

// Of an adapter that nobody knows any more nothing is said, and the runner says so.
std::vector<delivery::SharedAdapter> GatewayNode::SharedOf(
    const wire::SequenceRequest& request) const {
  std::vector<delivery::SharedAdapter> shared;
  for (const AdapterUse& use : request.adapters) {
    if (use.id < delivery::kFirstSharedAdapter || !options_.find_shared) continue;
    auto found = options_.find_shared(use.id, request.tenant);
    if (found) shared.push_back(std::move(found->shared));
  }
  return shared;
}

delivery::StartAttempt GatewayNode::WithShared(delivery::StartAttempt start) const {
  start.shared = SharedOf(start.request);
  return start;
}

void GatewayNode::OnAccepted(LinkId link, TimePoint) {
  links_.Close(link, FailedPrecondition("a gateway takes no links; connect to a scheduler"));
}

void GatewayNode::OnFrame(LinkId link, Frame frame, TimePoint now) {
  std::visit([&](const auto& body) { Handle(link, body, now); }, frame);
  Flush(false);
}

template <typename Unexpected>
void GatewayNode::Handle(LinkId link, const Unexpected& body, TimePoint now) {
  Refuse(link, InvalidArgument(StrCat("a ", NameOf(Frame(body)), " is not for a gateway")), now);
}

void GatewayNode::Refuse(LinkId link, const Status& why, TimePoint now) {
  links_.Close(link, why);
  OnBroken(link, why, now);
}

void GatewayNode::Handle(LinkId link, const Hello& hello, TimePoint now) {
  if (runner_links_.Find(link) != nullptr) return HandleRunnerHello(link, hello, now);
  if (scheduler_links_.Find(link) == nullptr) return;
  if (const Status status = CheckPeer(options_.hello, hello, Role::kScheduler); !status.ok()) {
    return Refuse(link, status, now);
  }
  scheduler_links_.OnHello(link);
}

void GatewayNode::Handle(LinkId link, const Welcome& welcome, TimePoint now) {
  if (scheduler_links_.Find(link) == nullptr || welcome.epoch < end_.epoch()) return;
  leader_ = link;
  is_serving_ = true;
  refused_.erase(*scheduler_links_.Find(link));
  LogInfo(StrCat("the scheduler at ", *scheduler_links_.Find(link), " leads, under epoch ",
                 welcome.epoch));
  Perform(end_.OnScheduler(welcome.epoch, now));
}

void GatewayNode::Handle(LinkId link, const RunnerList& list, TimePoint now) {
  if (leader_ != link) return;
  std::set<std::string> unwanted;
  for (auto& [id, runner] : runners_) unwanted.insert(std::exchange(runner.address, ""));
  for (const RunnerList::Runner& listed : list.runners) {
    runners_[listed.runner].address = listed.address;
    unwanted.erase(listed.address);
    runner_links_.Add(listed.address);
  }
  // What runs there goes on: its link stays until it breaks.
  for (const std::string& address : unwanted) runner_links_.Remove(address);
  runner_links_.OnTick(OwnHello(), now);
  FailHeld("", now);
  ForgetUnknown();
}

void GatewayNode::Handle(LinkId link, const wire::Placement& placement, TimePoint now) {
  if (scheduler_links_.Find(link) == nullptr) return;
  if (placement.gateway != GatewayId(options_.hello.id)) return;  // of an earlier life
  Perform(end_.OnPlacement(placement, now));
}

void GatewayNode::Handle(LinkId link, const Refusal& refusal, TimePoint now) {
  if (leader_ != link) return;
  const bool is_for_good = refusal.retry_after == Duration(0);
  const Status status =
      is_for_good ? InvalidArgument(refusal.reason)
                  : WithRetryAfter(ResourceExhausted(refusal.reason), refusal.retry_after);
  Perform(end_.OnRefused(refusal.sequence, status, now));
}

// Adapters that the runner was started with are a short copy away from its pool.
void GatewayNode::Handle(LinkId link, const Prefetch& prefetch, TimePoint) {
  const wire::SequenceRequest* const request = end_.Find(prefetch.sequence);
  const auto runner = runners_.find(prefetch.runner);
  if (leader_ != link || request == nullptr || runner == runners_.end()) return;
  if (!runner->second.link || !runner->second.takes_hints) return;
  LoadAdapters load = {.tenant = request->tenant, .shared = SharedOf(*request)};
  if (!load.shared.empty()) links_.Send(*runner->second.link, std::move(load));
}

Status GatewayNode::CheckRunner(const Hello& hello) const {
  RETURN_IF_ERROR(CheckPeer(options_.hello, hello, Role::kRunner));
  if (hello.runner.max_model_len >= options_.max_model_len) return OkStatus();
  return FailedPrecondition(
      StrCat("the runner holds ", hello.runner.max_model_len,
             " tokens of a sequence, and this gateway promises ", options_.max_model_len,
             ": start the gateway with --max-model-len ", hello.runner.max_model_len,
             ", or the runner with a larger --max-model-len or --pool-bytes"));
}

void GatewayNode::HandleRunnerHello(LinkId link, const Hello& hello, TimePoint now) {
  const std::string address = *runner_links_.Find(link);
  if (const Status status = CheckRunner(hello); !status.ok()) return Refuse(link, status, now);
  const RunnerId id(hello.id);
  Runner& runner = runners_[id];
  if (runner.link) {
    return Refuse(link, FailedPrecondition(StrCat("runner ", id, " is connected already")), now);
  }
  runner_links_.OnHello(link);
  refused_.erase(address);
  runner.link = link;
  runner_of_[link] = id;
  runner.numeric_class = hello.runner.numeric_class;
  runner.takes_hints = hello.takes_hints;
  runner.keeps_formats = hello.keeps_formats;
  runner.keeps_tool_calls = hello.keeps_tool_calls;
  runner.keeps_reasoning = hello.keeps_reasoning;
  runner.makes_embeddings = hello.makes_embeddings;
  runner.classifies = hello.classifies;
  runner.bounds_reasoning = hello.bounds_reasoning;
  runner.masks_tokens = hello.masks_tokens;
  adapter_pages_ = hello.runner.adapter_pages;
  page_bytes_ = hello.runner.page_bytes;
  LogInfo(StrCat("connected to runner ", id, " at ", address));
  for (const delivery::StartAttempt& start : std::exchange(runner.held, {})) Send(runner, start);
  FailHeld(address, now);  // for an earlier life of it
}

void GatewayNode::FailHeld(const std::string& address, TimePoint now) {
  std::vector<RunnerId> failed;
  for (const auto& [id, runner] : runners_) {
    if (runner.held.empty()) continue;
    if (runner.address.empty() || runner.address == address) failed.push_back(id);
  }
  for (const RunnerId id : failed) OnGone(id, now);
}

void GatewayNode::OnGone(RunnerId id, TimePoint now) {
  Runner& runner = runners_.at(id);
  runner.held.clear();
  runner.is_unreachable = false;
  Perform(end_.OnRunnerBroken(id, now));
}

void GatewayNode::ForgetUnknown() {
  std::erase_if(runners_, [](const auto& entry) {
    const Runner& runner = entry.second;
    return runner.address.empty() && !runner.link && runner.held.empty() && runner.unable.empty() &&
           !runner.is_unreachable;
  });
}

void GatewayNode::Handle(LinkId link, const TokenEvents& events, TimePoint now) {
  const auto runner = runner_of_.find(link);
  if (runner == runner_of_.end()) return;
  const RunnerId id = runner->second;
  for (const wire::TokenEvent& event : events.events) {
    const delivery::Effects effects = end_.OnToken(id, event, now);
    // What follows its first token is to be of the same class, wherever it is computed.
    const bool is_first =
        event.index == 0 && std::ranges::any_of(effects, [](const delivery::Effect& effect) {
          return std::holds_alternative<delivery::Deliver>(effect);
        });
    if (is_first && in_process_.contains(event.sequence)) {
      class_of_[event.sequence] = runners_.at(id).numeric_class;
    }
    Perform(effects);
  }
}

void GatewayNode::Handle(LinkId link, const delivery::AttemptRefused& refused, TimePoint now) {
  const auto runner = runner_of_.find(link);
  if (runner == runner_of_.end()) return;
  Perform(end_.OnAttemptRefused(runner->second, refused, now));
}

void GatewayNode::OnBroken(LinkId link, const Status& why, TimePoint now) {
  if (const std::string* const scheduler = scheduler_links_.Find(link)) {
    if (std::exchange(refused_[*scheduler], Message(why)) != Message(why)) {
      LogWarning(StrCat("no scheduler at ", *scheduler, ": ", Message(why)));
    }
    scheduler_links_.OnBroken(link, now);
    if (leader_ == link) {
      leader_.reset();
      Perform(end_.OnScheduler(std::nullopt, now));
    }
  } else if (const std::string* const found = runner_links_.Find(link)) {
    const std::string address = *found;
    if (std::exchange(refused_[address], Message(why)) != Message(why)) {
      LogWarning(StrCat("no runner at ", address, ": ", Message(why)));
    }
    runner_links_.OnBroken(link, now);
    FailHeld(address, now);
    if (const auto runner = runner_of_.find(link); runner != runner_of_.end()) {
      const RunnerId id = runner->second;
      runner_of_.erase(runner);
      runners_.at(id).link.reset();
      OnGone(id, now);
    }
    ForgetUnknown();
  }
  Flush(false);
}

void GatewayNode::OnTick(TimePoint now) {
  scheduler_links_.OnTick(OwnHello(), now);
  runner_links_.OnTick(OwnHello(), now);
  // From the start, when there has not been one yet.
  if (!leader_) Perform(end_.OnScheduler(std::nullopt, now));
  Perform(end_.OnTick(now));
  is_serving_ = leader_.has_value() || (is_serving_ && !end_.IsAbandoned(now));
  // Not at once: an attempt that fails is placed again, perhaps there.
  std::vector<RunnerId> unreachable;
  for (const auto& [id, runner] : runners_) {
    if (runner.is_unreachable) unreachable.push_back(id);
  }
  for (const RunnerId id : unreachable) OnGone(id, now);
  for (auto& [id, runner] : runners_) {
    for (const auto& refused : std::exchange(runner.unable, {})) {
      Perform(end_.OnAttemptRefused(id, refused, now));
    }
  }
  ForgetUnknown();
  Flush(true);
}

void GatewayNode::Perform(const delivery::Effects& effects) {
  for (const delivery::Effect& effect : effects) {
    if (const auto* submission = std::get_if<wire::Submission>(&effect)) {
      wire::Submission sent = *submission;
      if (sent.num_generated > 0) sent.numeric_class = class_of_[sent.sequence];
      ToScheduler(sent);
    } else if (const auto* close = std::get_if<delivery::CloseSequence>(&effect)) {
      ToScheduler(*close);
    } else if (const auto* start = std::get_if<delivery::StartOn>(&effect)) {
      Start(*start);
    } else if (const auto* release = std::get_if<delivery::ReleaseOn>(&effect)) {
      Release(*release);
    } else if (const auto* deliver = std::get_if<delivery::Deliver>(&effect)) {
      Deliver(deliver->event);
    }
  }
}

void GatewayNode::ToScheduler(const Frame& frame) {
  if (leader_) links_.Send(*leader_, frame);
}

void GatewayNode::Start(const delivery::StartOn& start) {
  Runner& runner = runners_[start.runner];
  if (runner.link) return Send(runner, WithShared(start.start));
  if (!runner.address.empty() && runner_links_.Has(runner.address)) {
    runner.held.push_back(WithShared(start.start));
  } else {
    runner.is_unreachable = true;
  }
}

void GatewayNode::Send(Runner& runner, delivery::StartAttempt start) {
  wire::SequenceRequest& request = start.request;
  const auto& budget = request.reasoning_budget;
  if (budget && !budget->is_required && !runner.bounds_reasoning) request.reasoning_budget.reset();
  const char* what = WhatItCannot(runner, request);
  if (what == nullptr) return links_.Send(*runner.link, std::move(start));
  runner.unable.push_back({.sequence = request.sequence,
                           .attempt = request.attempt,
                           .reason = StrCat("the runner is of a release that ", what)});
}

// Null: it can.
const char* GatewayNode::WhatItCannot(const Runner& runner, const wire::SequenceRequest& request) {
  if (request.pooling == wire::Pooling::kEmbedding && !runner.makes_embeddings) {
    return "makes no embeddings";
  }
  if (wire::OfClasses(request.pooling) && !runner.classifies) return "classifies no texts";
  if (request.reasoning_budget && !runner.bounds_reasoning) return "bounds no reasoning";
  const bool has_masks =
      !request.sampling.allowed_token_ids.empty() || !request.sampling.bad_words.empty();
  if (has_masks && !runner.masks_tokens) return "rules out no tokens and no words";
  const wire::OutputFormat& format = request.format;
  if (format.is_text()) return nullptr;
  const bool calls_tools = format.kind == wire::OutputFormat::Kind::kToolCalls;
  if (calls_tools && !runner.keeps_tool_calls) return "calls no tools, or has no tokenizer";
  if (!calls_tools && !runner.keeps_formats) {
    return "keeps to no format of outputs, or has no tokenizer";
  }
  if (format.reasoning && !runner.keeps_reasoning) {
    return "keeps to no format behind reasoning, or has no tokenizer";
  }
  return nullptr;
}

void GatewayNode::Release(const delivery::ReleaseOn& release) {
  const auto found = runners_.find(release.runner);
  if (found == runners_.end()) return;
  Runner& runner = found->second;
  if (runner.link) return links_.Send(*runner.link, release.release);
  std::erase_if(runner.held, [&](const delivery::StartAttempt& start) {
    return start.request.sequence == release.release.sequence &&
           start.request.attempt == release.release.attempt;
  });
}

void GatewayNode::Deliver(wire::TokenEvent event) {
  const auto found = in_process_.find(event.sequence);
  if (found == in_process_.end()) return;
  event.sequence = found->second;
  if (event.finish) {
    class_of_.erase(found->first);
    in_cluster_.erase(found->second);
    in_process_.erase(found);
  }
  delivered_.push_back(std::move(event));
}

void GatewayNode::Flush(bool counts) {
  const wire::StepStats before = stats_;
  if (counts) {
    const auto num_placed = static_cast<int32_t>(end_.CountPlaced());
    stats_.num_running = num_placed;
    stats_.num_waiting = static_cast<int32_t>(end_.num_live()) - num_placed;
  }
  const bool has_changed =
      before.num_running != stats_.num_running || before.num_waiting != stats_.num_waiting;
  if (delivered_.empty() && !has_changed) return;
  sink_.OnStep(stats_, std::exchange(delivered_, {}));
}

}  // namespace aril::cluster
