// One token stream being generated, as the engine sees it.

#ifndef ARIL_ENGINE_SEQUENCE_H_
#define ARIL_ENGINE_SEQUENCE_H_

#include <cstdint>
#include <vector>

#include "adapters/residency.h"
#include "base/ids.h"
#include "memory/page_pool.h"
#include "wire/messages.h"

namespace aril {

// Waiting: no pages, its adapter not pinned. Running: in the working set, in every step.
struct Sequence {
  Sequence(wire::SequenceRequest r, AdapterRef ref, int64_t pages_of_adapter,
           uint64_t arrival_number)
      : request(std::move(r)),
        adapter_ref(std::move(ref)),
        adapter_pages(pages_of_adapter),
        arrival(arrival_number) {
    if (request.sampling.prompt_logprobs) prompt_logprobs.emplace_back();
  }

  wire::SequenceRequest request;
  AdapterRef adapter_ref;  // of request.adapter
  int64_t adapter_pages;   // that it takes in the pool
  // Place in the queue; kept over evictions, so that first come stays first served.
  uint64_t arrival;
  std::vector<int32_t> output;
  bool running = false;
  bool has_started = false;  // has been running at least once

  // While running: tokens whose K and V are in `pages`, and the adapter.
  int64_t num_computed = 0;
  std::vector<PageRef> pages;
  AdapterPin adapter;

  // If asked for: entry i is about prompt token i (entry 0 stays empty). Grows as the prompt is
  // computed, is kept over evictions, and goes with the first token's event.
  std::vector<wire::Logprobs> prompt_logprobs;

  SequenceId id() const { return request.sequence; }
  int64_t num_prompt() const { return static_cast<int64_t>(request.prompt.size()); }
  int64_t num_tokens() const { return num_prompt() + static_cast<int64_t>(output.size()); }
  int32_t token(int64_t position) const {
    return position < num_prompt() ? request.prompt[static_cast<size_t>(position)]
                                   : output[static_cast<size_t>(position - num_prompt())];
  }

  // Gives up pages and adapter; tokens are kept, and their K and V recomputed on resumption.
  void Evict() {
    running = false;
    num_computed = 0;
    pages.clear();
    adapter.Reset();
  }
};

}  // namespace aril

#endif  // ARIL_ENGINE_SEQUENCE_H_
