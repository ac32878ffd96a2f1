#include "adapters/token_deltas.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace aril {

TokenDeltas::TokenDeltas(std::span<const OwnRow> rows, const WeightView* base, int64_t vocab_size,
                         bool is_embedding)
    : is_embedding_(is_embedding),
      rank_(std::ssize(rows)),
      vocab_(vocab_size),
      hidden_(rows.front().values.shape.at(1)) {
  if (base == nullptr) return;
  const int64_t base_vocab = ShapeOf(*base).at(0);
  deltas_.resize(static_cast<size_t>(rank_ * hidden_));
  tokens_.assign(static_cast<size_t>(rank_ * vocab_), ToBF16(0));
  std::vector<float> own(static_cast<size_t>(hidden_)), of_base(own.size());
  for (int64_t i = 0; i < rank_; ++i) {
    const auto& [token, values] = rows[static_cast<size_t>(i)];
    CHECK(token >= 0 && token < vocab_);
    tokens_[static_cast<size_t>(is_embedding_ ? i * vocab_ + token : token * rank_ + i)] =
        ToBF16(1);
    CopyAsFloat(values, 0, hidden_, own.data());
    if (token < base_vocab) {
      CopyAsFloat(*base, int64_t{token} * hidden_, hidden_, of_base.data());
    } else {
      std::ranges::fill(of_base, 0.0f);
    }
    for (int64_t h = 0; h < hidden_; ++h) {
      const auto at = static_cast<size_t>(h);
      deltas_[static_cast<size_t>(is_embedding_ ? h * rank_ + i : i * hidden_ + h)] =
          own[at] - of_base[at];
    }
  }
}

int64_t TokenDeltas::size_bytes() const {
  return static_cast<int64_t>(deltas_.size() * sizeof(float) + tokens_.size() * sizeof(BF16));
}

TensorView TokenDeltas::TokensView(Shape shape) const {
  return {reinterpret_cast<const std::byte*>(tokens_.data()), DType::kBF16, std::move(shape)};
}

TensorView TokenDeltas::DeltasView(Shape shape) const {
  return {reinterpret_cast<const std::byte*>(deltas_.data()), DType::kF32, std::move(shape)};
}

}  // namespace aril
