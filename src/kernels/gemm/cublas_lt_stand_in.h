// A library that stands in for cuBLASLt, for tests without a GPU: it computes in the emulator's
// stream, with algorithms that a test makes up. They take the time that the test says, and no real
// one; what they get wrong is what algorithms of the library might.
//
// It is loaded as the library is, so that the true one may be beside it.

#ifndef ARIL_KERNELS_GEMM_CUBLAS_LT_STAND_IN_H_
#define ARIL_KERNELS_GEMM_CUBLAS_LT_STAND_IN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace aril::kernels {

// From the first one to the last one.
struct RowRange {
  int64_t first = 1;
  int64_t last = INT64_MAX;
  bool Has(int64_t row) const { return row >= first && row <= last; }
};
inline constexpr RowRange kNoRows{.first = 1, .last = 0};

// Adds up along k in order, but where it is said otherwise. The ranges are of numbers of rows, but
// for `other_rows`, which is of their indices.
struct StandInAlgorithm {
  std::string name;
  // What a product takes.
  double call_us = 10;
  double row_us = 1;

  RowRange advised;  // the library advises it for such products, of a k that is no larger
  int64_t advised_k = INT64_MAX;
  RowRange checked;   // cublasLtMatmulAlgoCheck finds that it can compute such products
  RowRange computed;  // cublasLtMatmul does not refuse them
  size_t workspace_bytes = 0;

  int64_t splits = 1;               // parts of k, of which the sums are added in the end
  RowRange other_order = kNoRows;   // in such products it adds from the end …
  RowRange other_rows{.first = 0};  // … in these rows of y
  int64_t rows_left_out = 0;        // of y, the last
};

struct CublasLtStandIn {
  std::vector<StandInAlgorithm> algorithms;  // as they are advised: best first
  std::string failing;                       // the name of a function that only fails
  // Of all products that the stream has come to: their time, and the names of their algorithms.
  double spent_us = 0;
  std::vector<std::string> products;
};

// What the library holds, for all who have loaded it: found by dlsym.
extern "C" CublasLtStandIn* ArilCublasLtStandIn();

}  // namespace aril::kernels

#endif  // ARIL_KERNELS_GEMM_CUBLAS_LT_STAND_IN_H_
