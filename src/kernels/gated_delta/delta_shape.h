// The sizes of gated delta layers, and how what a sequence remembers of them lies in pages.

#ifndef ARIL_KERNELS_GATED_DELTA_DELTA_SHAPE_H_
#define ARIL_KERNELS_GATED_DELTA_DELTA_SHAPE_H_

#include <cstdint>

#include "base/checked.h"

namespace aril::kernels {

struct DeltaShape {
  int64_t num_key_heads = 0;
  int64_t num_value_heads = 0;  // a multiple of num_key_heads
  int64_t key_dim = 0;          // of a head
  int64_t value_dim = 0;
  int64_t conv_size = 0;  // tokens that the convolution sees

  int64_t key_size() const { return num_key_heads * key_dim; }
  int64_t value_size() const { return num_value_heads * value_dim; }
  // q, k and v, which are convolved.
  int64_t num_channels() const { return 2 * key_size() + value_size(); }
  // What a layer makes of a token before: channels, then z, b and a.
  int64_t num_columns() const { return num_channels() + value_size() + 2 * num_value_heads; }
};

// A sequence's state: of each layer the matrix [key_dim, value_dim] of each value head, and the
// last conv_size inputs of the convolution, [num_channels] each; all fp32. It is divided into rows
// of value_dim, which lie one behind the other in pages of its own; none straddles two.
struct StateLayout {
  int64_t num_layers = 0;  // that have a state; 0: sequences have none
  DeltaShape shape;
  int64_t page_bytes = 0;  // at least a row's

  int64_t row_bytes() const { return shape.value_dim * static_cast<int64_t>(sizeof(float)); }
  int64_t rows_per_page() const { return page_bytes / row_bytes(); }
  int64_t rows_per_input() const { return CeilDiv(shape.num_channels(), shape.value_dim); }
  int64_t num_matrix_rows() const { return shape.num_value_heads * shape.key_dim; }
  int64_t rows_per_layer() const { return num_matrix_rows() + shape.conv_size * rows_per_input(); }
  // Of one sequence.
  int64_t num_pages() const {
    return num_layers == 0 ? 0 : CeilDiv(num_layers * rows_per_layer(), rows_per_page());
  }

  // The first row of a head's matrix; of the convolution's input at a position.
  int64_t MatrixRow(int64_t layer, int64_t value_head) const {
    return layer * rows_per_layer() + value_head * shape.key_dim;
  }
  int64_t InputRow(int64_t layer, int64_t position) const {
    return layer * rows_per_layer() + num_matrix_rows() +
           position % shape.conv_size * rows_per_input();
  }
};

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GATED_DELTA_DELTA_SHAPE_H_
