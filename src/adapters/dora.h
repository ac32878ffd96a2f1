// DoRA's gains (Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation", equation 5; peft,
// tuners/lora/dora.py): how much longer each row of an adapted weight is to be than it is.

#ifndef ARIL_ADAPTERS_DORA_H_
#define ARIL_ADAPTERS_DORA_H_

#include <vector>

#include "base/status.h"
#include "kernels/cpu/isa.h"
#include "tensor/tensor.h"
#include "tensor/weight_view.h"

namespace aril {

// One module, with the matrices as the files have them.
struct DoraModule {
  WeightView weight;     // W [out, in], of the base model; of the embedding Wᵀ, [vocab, hidden]
  TensorView a;          // lora_A [rank, in]
  TensorView b;          // lora_B [out, rank]
  TensorView magnitude;  // lora_magnitude_vector [out]
  double scale = 0;
};

// gain[o] = magnitude[o] / |W[o] + scale · B[o] A|, [out]. The product of B and A is never made; W
// is read once, on the calling thread: about 2 · out · in · rank operations, of the instruction
// set. InvalidArgument if a row has no length.
StatusOr<std::vector<float>> DoraGains(const DoraModule& module, kernels::Isa isa);

// The same of the embedding, whose inputs are the tokens and whose outputs the hidden values
// (peft's DoraEmbeddingLayer): each column of [vocab, hidden] has a length to learn, [hidden].
StatusOr<std::vector<float>> DoraEmbeddingGains(const DoraModule& module, kernels::Isa isa);

}  // namespace aril

#endif  // ARIL_ADAPTERS_DORA_H_
