// How long a runner's step takes. Linear in what the step computes and reads, as measured steps are
// within their batch limits (Vidur fits the same terms, operator by operator):
//
//   base + prefill_token * prefill tokens + sequence * decodes + context_token * tokens attended to
//        + adapter_byte * bytes of the different adapters in the batch
//
// but for the first `free_rows`: a step bound by reading weights has room to compute some rows
// meanwhile. Decodes take it first, prompts what they leave.
//
// The coefficients are data: a JSON object of them.

#ifndef ARIL_SIMULATE_STEP_MODEL_H_
#define ARIL_SIMULATE_STEP_MODEL_H_

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "scheduler/step_curve.h"

namespace aril::simulate {

struct StepWork {
  int64_t prefill_tokens = 0;
  int64_t decodes = 0;
  int64_t context_tokens = 0;  // of the decodes, together
  int64_t adapter_bytes = 0;   // of different adapters
};

// Seconds for one of each, but `free_rows`. The defaults are Llama-2 7B in fp16 on one A100 80 GB:
// a decode step of 11 ms for one sequence, 13 ms for 32 short ones and 34 ms for 32 of 2048 tokens
// (Punica, section 2.2 and figure 1); 2 * 6.7e9 operations per prompt token at 60 % of 312 TFLOP/s;
// adapters read at 1.5 TB/s and copied to the device at 20 GB/s.
struct StepModel {
  double base = 0.0109;
  double prefill_token = 7.2e-5;
  double sequence = 6.5e-5;
  double context_token = 3.2e-7;
  double adapter_byte = 6.7e-13;
  double load_byte = 5e-11;    // of an adapter, to the device
  double load_latency = 1e-3;  // of a load
  double free_rows = 0;        // not seconds: rows

  Duration Step(const StepWork& work) const;
  // Of a step's prefill tokens, those beyond its free rows.
  double PaidPrefillTokens(const StepWork& work) const;
  Duration Load(int64_t adapter_bytes) const;
  // Of decode steps of 1 ... max_batch sequences with this many tokens each.
  scheduler::StepCurve Curve(int64_t max_batch, int64_t context_tokens) const;
  Json ToJson() const;
};

// {"base": 0.011, …}: what is left out keeps its default. InvalidArgument for unknown members, and
// values that are no number of seconds from 0 to 10, or of rows from 0 to 65,536; `base` must be
// above 0.
StatusOr<StepModel> ParseStepModel(std::string_view text);

}  // namespace aril::simulate

#endif  // ARIL_SIMULATE_STEP_MODEL_H_
