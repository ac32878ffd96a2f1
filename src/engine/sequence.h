// One token stream being generated, as the engine sees it.

#ifndef ARIL_ENGINE_SEQUENCE_H_
#define ARIL_ENGINE_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adapters/residency.h"
#include "base/ids.h"
#include "engine/bounded_reasoning.h"
#include "engine/drafts.h"
#include "engine/standing_pins.h"
#include "grammar/token_automaton.h"
#include "memory/page_pool.h"
#include "memory/prefix_cache.h"
#include "wire/messages.h"

namespace aril {

// Waiting: no pages, its adapters not pinned. Running: in the working set, and in every step that
// has rows for it once its adapters are loaded.
struct Sequence {
  struct Adapter {
    AdapterRef ref;
    int64_t num_pages = 0;    // that it takes in the pool
    int64_t first_token = 0;  // that it applies to
    AdapterPin pin = {};      // while the sequence is running
  };

  Sequence(wire::SequenceRequest r, std::vector<Adapter> used, StandingPins::Room its_room,
           std::shared_ptr<grammar::TokenAutomaton> format, uint64_t arrival_number)
      : request(std::move(r)),
        adapters(std::move(used)),
        room(std::move(its_room)),
        arrival(arrival_number),
        prefix_source{request.tenant},
        output(std::move(request.output)) {
    for (size_t i = 0; i < adapters.size(); ++i) {
      prefix_source.adapters.push_back({request.adapters[i], adapters[i].first_token});
    }
    if (format != nullptr) matcher.emplace(std::move(format), output);
    if (request.reasoning_budget) reasoning.emplace(*request.reasoning_budget, output);
    // They go with the first token, which an earlier attempt has given.
    if (request.sampling.prompt_logprobs && output.empty()) prompt_logprobs.emplace_back();
  }

  wire::SequenceRequest request;
  std::vector<Adapter> adapters;  // of request.adapters, in that order
  StandingPins::Room room;        // beside what is pinned
  // Place in the queue; kept over evictions, so that first come stays first served. Before it has
  // started, one of its tenant's that goes before it may take it (Engine::Add).
  uint64_t arrival;
  PrefixSource prefix_source;  // of its tokens, generated ones included
  std::vector<int32_t> output;
  // Of a request with a format: behind `output`.
  std::optional<grammar::TokenMatcher> matcher;
  // Of a request with a budget for reasoning: likewise.
  std::optional<BoundedReasoning> reasoning;
  // Its last row was run before it was found which tokens the format allows.
  bool waits_for_format = false;
  bool running = false;
  bool has_started = false;  // has been running at least once
  bool has_run = false;      // has had rows in a step

  // While running: the pages with the K and V of the first num_computed tokens.
  // The first prefix.num_pages() of them may be other sequences', too, and are not written any
  // more. (Pages go before the pins that keep them.)
  PrefixCache::Pin prefix;
  std::vector<PageRef> pages;
  int64_t num_computed = 0;
  // And those of its state, where the model has one, of the first num_in_state tokens: as many, or
  // one more, whose row is to be run again.
  std::vector<PageRef> state_pages;
  int64_t num_in_state = 0;
  // Behind so many tokens it is to be cached, so that a step has to end there; 0: nowhere.
  int64_t stop = 0;
  // Of the steps that a device has been given and nobody has waited for: rows, behind num_computed,
  // and tokens that they choose.
  int64_t rows_under_way = 0;
  int64_t tokens_under_way = 0;
  // Guesses of what follows, for the step that is planned; how far they are worth it.
  Draft draft;
  DraftTrust trust_in_itself{DraftTrust::kInItself};
  DraftTrust trust_in_prediction{DraftTrust::kInPredictions};
  // Ended, while its rows were under way: what becomes of them is of no interest.
  bool has_ended = false;
  // Prompt tokens that were in the cache when the sequence first started.
  int64_t num_cached = 0;

  // If asked for: entry i is about prompt token i (entry 0 stays empty). Grows as the prompt is
  // computed, is kept over evictions, and goes with the first token's event.
  std::vector<wire::Logprobs> prompt_logprobs;

  DraftTrust& trust_in(const Draft& made) {
    return made.is_predicted ? trust_in_prediction : trust_in_itself;
  }

  SequenceId id() const { return request.sequence; }
  // Of both kinds.
  int64_t num_pages() const { return std::ssize(pages) + std::ssize(state_pages); }
  int64_t num_prompt() const { return static_cast<int64_t>(request.prompt.size()); }
  int64_t num_tokens() const { return num_prompt() + static_cast<int64_t>(output.size()); }
  // Once the steps under way have been run.
  int64_t next_num_tokens() const { return num_tokens() + tokens_under_way; }
  int64_t next_num_computed() const { return num_computed + rows_under_way; }
  // Whether it will want rows then, if no stop token comes.
  bool WantsRowsNext() const {
    const bool is_full =
        tokens_under_way > 0 &&
        static_cast<int64_t>(output.size()) + tokens_under_way >= request.max_tokens;
    return !is_full && next_num_computed() < next_num_tokens();
  }
  // Whether it will then be at a token that was chosen, and how many it may still get.
  bool DecodesNext() const {
    return running && WantsRowsNext() && next_num_computed() == next_num_tokens() - 1 &&
           next_num_tokens() > num_prompt();
  }
  bool StopsAt(int64_t tokens) const { return stop > 0 && stop == tokens; }
  int64_t NumLeftNext() const { return num_prompt() + request.max_tokens - next_num_tokens(); }
  int32_t token(int64_t position) const {
    return position < num_prompt() ? request.prompt[static_cast<size_t>(position)]
                                   : output[static_cast<size_t>(position - num_prompt())];
  }

  // Tokens that it may have: of its adapters' vocabulary, if they have another than the base
  // model's (Engine::Accept sees to it that they have one); else of that.
  static int64_t VocabSize(std::span<const Adapter> adapters, int64_t of_base) {
    for (const Adapter& adapter : adapters) {
      const int64_t of_adapter = adapter.ref.adapter->spec().vocab_size;
      if (of_adapter != of_base) return of_adapter;
    }
    return of_base;
  }
  // That of its classifier, of which it has one.
  static const ClassHead* FindClassHead(std::span<const Adapter> adapters) {
    for (const Adapter& adapter : adapters) {
      if (const ClassHead* head = adapter.ref.adapter->class_head()) return head;
    }
    return nullptr;
  }
  // By which its prompt is to be classified; else null.
  const ClassHead* class_head() const {
    return wire::OfClasses(request.pooling) ? FindClassHead(adapters) : nullptr;
  }

  std::vector<int32_t> Tokens(int64_t first, int64_t count) const {
    std::vector<int32_t> tokens;
    tokens.reserve(static_cast<size_t>(count));
    for (int64_t i = first; i < first + count; ++i) tokens.push_back(token(i));
    return tokens;
  }
  // The first row whose logits are wanted: it has to be computed, whatever is cached.
  int64_t first_logits_row() const {
    const bool wants_prompt = request.sampling.prompt_logprobs && output.empty();
    // The row of token i tells about token i + 1.
    const auto known = static_cast<int64_t>(prompt_logprobs.size());
    return wants_prompt ? std::min(known, num_tokens()) - 1 : num_tokens() - 1;
  }

  // Gives up pages and adapters; tokens are kept, and their K and V recomputed on resumption.
  void Evict() {
    running = false;
    num_computed = 0;
    num_in_state = 0;
    stop = 0;
    pages.clear();
    state_pages.clear();
    draft = {};
    prefix.Reset();
    for (Adapter& adapter : adapters) adapter.pin.Reset();
  }
};

}  // namespace aril

#endif  // ARIL_ENGINE_SEQUENCE_H_
