// What a sequence must be so that it can run here.

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/strings.h"
#include "engine/engine.h"
#include "wire/limits.h"

namespace aril {
namespace {

// PEFT computes what the base model does then, and asks that no prompt be without: who names an
// adapter wants it, and would not see that it has done nothing.
Status NotInvoked(const LoraSpec& spec) {
  constexpr size_t kMaxShown = 16;
  const size_t num_shown = std::min(kMaxShown, spec.invocation_tokens.size());
  return InvalidArgument(StrCat(
      "the prompt does not invoke an adapter of the request, which applies from its "
      "invocation on: nowhere are the tokens [",
      Join(std::span(spec.invocation_tokens).first(num_shown), ", "),
      num_shown < spec.invocation_tokens.size() ? ", …" : "",
      "] (\"alora_invocation_tokens\" in its adapter_config.json). Let the prompt have them, "
      "or the chat template; or ask the base model"));
}

// Of a request, which has that many.
Status CheckClassifiers(wire::Pooling pooling, int num_classifiers) {
  if (pooling == wire::Pooling::kNone && num_classifiers > 0) {
    return InvalidArgument(
        "an adapter of the request was trained to classify texts, and generates none (its "
        "\"task_type\" is \"SEQ_CLS\"): ask for classes (/v1/classify)");
  }
  if (!wire::OfClasses(pooling) || num_classifiers == 1) return OkStatus();
  if (num_classifiers > 1) {
    return InvalidArgument(
        "two adapters of the request are classifiers, and a text is classified by one");
  }
  return InvalidArgument(
      "what the request names is no classifier: texts are classified by adapters whose "
      "\"task_type\" is \"SEQ_CLS\" in adapter_config.json");
}

Status CheckTokens(std::span<const int32_t> tokens, int64_t vocab_size) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocab_size) continue;
    return InvalidArgument(
        StrCat("token id ", token, " is outside the vocabulary of ", vocab_size, " tokens"));
  }
  return OkStatus();
}

Status CheckOutput(const wire::SequenceRequest& request, int64_t vocab_size) {
  const auto num_output = static_cast<int64_t>(request.output.size());
  if (num_output > 0 && num_output >= request.max_tokens) {
    return InvalidArgument(StrCat("the sequence has ", num_output,
                                  " tokens of output already, and max_tokens is ",
                                  request.max_tokens));
  }
  return CheckTokens(request.output, vocab_size);
}

Status CheckMasks(const wire::SequenceRequest& request, int64_t vocab_size) {
  const auto& allowed = request.sampling.allowed_token_ids;
  const auto& bad_words = request.sampling.bad_words;
  if (std::ranges::adjacent_find(allowed, std::ranges::greater_equal()) != allowed.end()) {
    return InvalidArgument("the tokens that the output may have do not rise");
  }
  if (!request.format.is_text() && !(allowed.empty() && bad_words.empty())) {
    return InvalidArgument(
        "the output has a format: what tokens or words it may have cannot be said as well");
  }
  RETURN_IF_ERROR(CheckTokens(allowed, vocab_size));
  for (const std::vector<int32_t>& word : bad_words) {
    if (word.empty()) return InvalidArgument("a bad word has no tokens");
    RETURN_IF_ERROR(CheckTokens(word, vocab_size));
  }
  return OkStatus();
}

Status CheckBudget(const wire::ReasoningBudget& budget, int64_t vocab_size) {
  const size_t num_closing = budget.closing.size();
  if (budget.max_tokens < 0) {
    return InvalidArgument(StrCat("a budget of ", budget.max_tokens, " tokens is none"));
  }
  if (num_closing == 0 || num_closing > wire::kMaxReasoningClosingTokens) {
    return InvalidArgument(StrCat("1 to ", wire::kMaxReasoningClosingTokens,
                                  " tokens may close it, and there are ", num_closing));
  }
  if (budget.begin == budget.closing.back()) {
    return InvalidArgument(StrCat("it begins and ends with token ", *budget.begin));
  }
  if (budget.begin) RETURN_IF_ERROR(CheckTokens({&*budget.begin, 1}, vocab_size));
  return CheckTokens(budget.closing, vocab_size);
}

}  // namespace

StatusOr<AcceptedSequence> Engine::Accept(wire::SequenceRequest request) {
  if (request.prompt.empty()) return InvalidArgument("the prompt has no tokens");
  if (request.max_tokens < 0) return InvalidArgument("max_tokens is negative");
  const bool is_pooled = request.pooling != wire::Pooling::kNone;
  if (!is_pooled && !model_.spec().has_lm_head) {
    return InvalidArgument(
        StrCat("this model makes embeddings and classes, and no text: it has no lm_head, being a ",
               model_.spec().architecture));
  }
  if (is_pooled && (request.max_tokens > 0 || request.sampling.prompt_logprobs)) {
    return InvalidArgument(
        "embeddings and classes are of a prompt alone: max_tokens must be 0, and prompt_logprobs "
        "false");
  }
  ASSIGN_OR_RETURN(std::vector<Sequence::Adapter> adapters, FindAdapters(request));
  const int64_t vocab_size = Sequence::VocabSize(adapters, model_.spec().vocab_size);
  RETURN_IF_ERROR(CheckTokens(request.prompt, vocab_size));
  RETURN_IF_ERROR(CheckOutput(request, vocab_size));
  if (const Status checked = CheckTokens(request.prediction, vocab_size); !checked.ok()) {
    return Annotate(checked, "the prediction");
  }
  RETURN_IF_ERROR(CheckMasks(request, vocab_size));
  if (request.reasoning_budget) {
    const Status checked = CheckBudget(*request.reasoning_budget, vocab_size);
    if (!checked.ok()) return Annotate(checked, "the budget for reasoning");
  }
  std::erase_if(request.stop_token_ids,
                [&](int32_t token) { return token < 0 || token >= vocab_size; });
  ASSIGN_OR_RETURN(std::shared_ptr<grammar::TokenAutomaton> format, FindFormat(request.format));
  if (wire::OfClasses(request.pooling)) {
    const ClassHead* const head = Sequence::FindClassHead(adapters);
    CHECK(head != nullptr);  // FindAdapters has seen one
    request.prompt.resize(head->WithoutPadding(request.prompt).size());
  }
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t tokens = prompt + request.max_tokens;
  if (tokens > options_.max_model_len) {
    return InvalidArgument(
        StrCat("This model's maximum context length is ", options_.max_model_len,
               " tokens. However, you requested ", tokens, " tokens (", prompt, " in the prompt, ",
               request.max_tokens,
               " in the completion). Please reduce the length of the prompt or the completion."));
  }
  std::vector<StandingPins::AdapterPages> adapter_pages;
  for (const Sequence::Adapter& adapter : adapters) {
    adapter_pages.push_back({adapter.ref.id, adapter.num_pages});
  }
  ASSIGN_OR_RETURN(
      StandingPins::Room room,
      standing_pins_.Reserve(std::move(adapter_pages), limits_.pages.For(tokens), request.tenant));
  return AcceptedSequence{std::move(request), std::move(adapters), std::move(room),
                          std::move(format)};
}

StatusOr<std::shared_ptr<grammar::TokenAutomaton>> Engine::FindFormat(
    const wire::OutputFormat& format) {
  if (format.is_text()) return nullptr;
  auto automaton = formats_->Get(format);
  if (automaton.ok()) return automaton;
  const std::string what = StrCat("the output's format: ", Message(automaton.status()));
  const bool is_for_now = automaton.status().code() == StatusCode::kUnavailable;
  return is_for_now ? Unavailable(what) : InvalidArgument(what);
}

StatusOr<std::vector<Sequence::Adapter>> Engine::FindAdapters(
    const wire::SequenceRequest& request) const {
  std::vector<Sequence::Adapter> found;
  std::set<AdapterId> seen;
  bool has_embedding = false;
  bool has_lm_head = false;
  std::set<int64_t> vocab_sizes;  // of those that change what has one
  int num_classifiers = 0;
  for (const AdapterUse& use : request.adapters) {
    if (use.id == kBaseModel || !seen.insert(use.id).second || !std::isfinite(use.weight)) {
      return InvalidArgument(
          "the adapters of a sequence must be different ones with finite weights");
    }
    ASSIGN_OR_RETURN(AdapterRef ref, adapters_.Find(use.id));
    const LoraSpec& spec = ref.adapter->spec();
    if (use.weight != 1 && !spec.can_be_weighted()) {
      return InvalidArgument(
          "an adapter with DoRA, or with matrices, rows of tokens or a head of its own "
          "(modules_to_save, trainable_token_indices), applies with weight 1");
    }
    if ((has_embedding && spec.brings_embedding()) || (has_lm_head && spec.brings_lm_head())) {
      return InvalidArgument(
          "two adapters of the request bring a matrix, or rows of tokens, of their own "
          "(modules_to_save, trainable_token_indices, a vocabulary that was resized) for the same "
          "module: use one of them");
    }
    if (spec.changes_outer() || spec.vocab_size != model_.spec().vocab_size) {
      vocab_sizes.insert(spec.vocab_size);
    }
    if (vocab_sizes.size() > 1) {
      return InvalidArgument(
          "two adapters of the request change the embedding or lm_head, and have vocabularies of "
          "different sizes: use one of them");
    }
    has_embedding |= spec.brings_embedding();
    has_lm_head |= spec.brings_lm_head();
    num_classifiers += spec.is_classifier ? 1 : 0;
    const std::optional<int64_t> first_token = spec.FirstToken(request.prompt);
    if (!first_token.has_value()) return NotInvoked(spec);
    const int64_t num_pages = residency_.PagesFor(ref);
    found.push_back({std::move(ref), num_pages, *first_token});
  }
  RETURN_IF_ERROR(CheckClassifiers(request.pooling, num_classifiers));
  return found;
}

StatusOr<std::shared_ptr<const void>> Engine::Pin(AdapterId adapter, const std::string& owner) {
  ASSIGN_OR_RETURN(const AdapterRef ref, adapters_.Find(adapter));
  return standing_pins_.Pin(ref, residency_.PagesFor(ref), owner);
}

}  // namespace aril
