// What a mixture of experts does around its experts' products (Shazeer et al. 2017): which rows go
// to which expert, and the sum of what comes back.
//
// All of it is a function of one row: its experts follow from its own logits, and what they give is
// added in the order of the experts, whoever else is in the batch.

#ifndef ARIL_KERNELS_EXPERTS_EXPERTS_H_
#define ARIL_KERNELS_EXPERTS_EXPERTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/context.h"
#include "kernels/matrix.h"

namespace aril::kernels {

struct Routing {
  int64_t experts_per_row = 1;
  // A row's weights are divided by their sum.
  bool normalized = false;
};

// Writes the experts of a row to `experts` and their weights to `weights`, both [experts_per_row]:
// those of the highest probabilities (the softmax of its `logits`), in ascending order; of equal
// ones the first. Different experts in any case, also where logits are NaN.
void ChooseExperts(std::span<const float> logits, const Routing& routing, int32_t* experts,
                   float* weights);

// The oracle of the weights, in double arithmetic, of experts that were chosen.
void ExpertWeightsRef(std::span<const float> logits, const Routing& routing,
                      std::span<const int32_t> experts, double* weights);

// The rows of each expert of a layer: "places", one for each row and each of its experts, in the
// order of the experts, those of an expert in the order of their rows. Used by one thread at a
// time; memory is kept for the next layer.
class ExpertRows {
 public:
  // By the router's logits [rows, experts]; experts_per_row is at most experts.
  void Assign(CpuContext& context, MatrixView<const float> logits, const Routing& routing);

  int64_t num_places() const { return static_cast<int64_t>(rows_.size()); }
  // Of an expert; of the one after the last, num_places().
  int64_t FirstPlace(int64_t expert) const { return first_[static_cast<size_t>(expert)]; }
  // Of its places, ascending.
  std::span<const int32_t> RowsOf(int64_t expert) const {
    return std::span(rows_).subspan(
        static_cast<size_t>(FirstPlace(expert)),
        static_cast<size_t>(FirstPlace(expert + 1) - FirstPlace(expert)));
  }
  // Of a place.
  int32_t RowAt(int64_t place) const { return rows_[static_cast<size_t>(place)]; }

  // out [count, cols] = the rows of x [rows, cols] at the places from `first` on, of one dtype.
  void Gather(CpuContext& context, const ConstMatrix& x, int64_t first, const Matrix& out) const;

  // sum [rows, cols] += what experts gave for the places from `first` on, y [count, cols],
  // weighted: one after the other for each row.
  void AddWeighted(CpuContext& context, MatrixView<const float> y, int64_t first,
                   MatrixView<float> sum) const;

 private:
  int64_t per_row_ = 0;
  // Per row, per_row_ each: its experts, ascending, their weights, and its places among theirs.
  std::vector<int32_t> experts_;
  std::vector<float> weights_;
  std::vector<int64_t> places_;
  std::vector<int64_t> first_;  // per expert, and one more
  std::vector<int32_t> rows_;   // per place
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_EXPERTS_EXPERTS_H_
