// Rows of the embedding, or of lm_head, that an adapter has in place of the base model's, or behind
// them, as the two matrices of a LoRA of which each token is a rank: what a row differs by, and
// which token it is of.

#ifndef ARIL_ADAPTERS_TOKEN_DELTAS_H_
#define ARIL_ADAPTERS_TOKEN_DELTAS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/tensor.h"
#include "tensor/weight_view.h"

namespace aril {

struct OwnRow {
  int32_t token;
  TensorView values;  // [1, hidden]
};

// What the views are of. Immutable.
class TokenDeltas {
 public:
  // `rows`: one at least, of different tokens below `vocab_size`. `base` [its vocabulary, hidden]:
  // the model's matrix, zero behind that; null if its values are not known, and then the views have
  // a shape only. `is_embedding`: inputs are tokens, and outputs hidden values; of lm_head it is
  // the other way round.
  TokenDeltas(std::span<const OwnRow> rows, const WeightView* base, int64_t vocab_size,
              bool is_embedding);

  // lora_A [rank, in] and lora_B [out, rank].
  TensorView a() const {
    return is_embedding_ ? TokensView({rank_, vocab_}) : DeltasView({rank_, hidden_});
  }
  TensorView b() const {
    return is_embedding_ ? DeltasView({hidden_, rank_}) : TokensView({vocab_, rank_});
  }
  int64_t size_bytes() const;

 private:
  TensorView TokensView(Shape shape) const;
  TensorView DeltasView(Shape shape) const;

  bool is_embedding_;
  int64_t rank_, vocab_, hidden_;
  std::vector<float> deltas_;
  std::vector<BF16> tokens_;  // 1 where a rank is of a token, else 0
};

}  // namespace aril

#endif  // ARIL_ADAPTERS_TOKEN_DELTAS_H_
