// As gemm_cuda.cc says, a product's matrices are in columns: A is W as [k, n], which is transposed,
// B is xᵀ [k, rows], and D is yᵀ [n, rows]. What is not of that kind is refused.

#include "kernels/gemm/cublas_lt_stand_in.h"

#include <cstring>

#include "kernels/cuda/emulator.h"
#include "kernels/gemm/cublas_lt.h"
#include "tensor/dtype.h"

namespace aril::kernels {
namespace {

CublasLtStandIn stand_in;

// What the library's handles stand for here.
struct Operation {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const float* bias = nullptr;
};
struct Layout {
  cudaDataType type;
  int64_t rows, cols, stride;
};
struct Preference {
  size_t workspace_bytes = 0;
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
};

template <typename T>
T& As(void* handle) {
  return *static_cast<T*>(handle);
}
template <typename Handle, typename T>
cublasStatus_t Make(Handle* handle, T value) {
  *handle = reinterpret_cast<Handle>(new T(value));
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T>
cublasStatus_t Delete(void* handle) {
  delete static_cast<T*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T>
cublasStatus_t Set(T& value, const void* from, size_t size_bytes) {
  if (size_bytes != sizeof(value)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&value, from, sizeof(value));
  return CUBLAS_STATUS_SUCCESS;
}

bool Fails(const char* function) { return stand_in.failing == function; }

// y [rows, n] = x [rows, k] · Wᵀ + bias.
struct Product {
  cudaDataType type;
  int64_t rows, n, k;
  const void* w = nullptr;
  int64_t w_stride;
  const void* x = nullptr;
  int64_t x_stride;
  const float* bias;
  float* y = nullptr;
  int64_t y_stride;
};

// Without the matrices' addresses. INVALID_VALUE if it is none.
cublasStatus_t Describe(void* desc, void* a_layout, void* b_layout, void* d_layout,
                        Product& product) {
  const auto& operation = As<Operation>(desc);
  const auto &a = As<Layout>(a_layout), &b = As<Layout>(b_layout), &d = As<Layout>(d_layout);
  const bool has_bias = operation.epilogue == CUBLASLT_EPILOGUE_BIAS;
  const bool is_one = operation.a == CUBLAS_OP_T && operation.b == CUBLAS_OP_N &&
                      has_bias == (operation.bias != nullptr) && a.type == b.type &&
                      d.type == CUDA_R_32F && a.rows == b.rows && a.cols == d.rows &&
                      b.cols == d.cols && a.stride >= a.rows && b.stride >= b.rows &&
                      d.stride >= d.rows && b.cols > 0;
  if (!is_one) return CUBLAS_STATUS_INVALID_VALUE;
  product = {.type = a.type,
             .rows = b.cols,
             .n = a.cols,
             .k = a.rows,
             .w_stride = a.stride,
             .x_stride = b.stride,
             .bias = operation.bias,
             .y_stride = d.stride};
  return CUBLAS_STATUS_SUCCESS;
}

float ElementOf(const void* values, int64_t index, cudaDataType type) {
  if (type == CUDA_R_32F) return static_cast<const float*>(values)[index];
  const uint16_t bits = static_cast<const uint16_t*>(values)[index];
  return type == CUDA_R_16F ? ToFloat(F16{bits}) : ToFloat(BF16{bits});
}

// The products of k from `first` on, in order or from the end.
float Sum(const Product& product, int64_t row, int64_t col, int64_t first, int64_t last,
          bool from_end) {
  float sum = 0;
  for (int64_t i = first; i < last; ++i) {
    const int64_t at = from_end ? last - 1 - (i - first) : i;
    sum += ElementOf(product.x, row * product.x_stride + at, product.type) *
           ElementOf(product.w, col * product.w_stride + at, product.type);
  }
  return sum;
}

void Compute(const StandInAlgorithm& algorithm, const Product& product) {
  for (int64_t row = 0; row < product.rows - algorithm.rows_left_out; ++row) {
    const bool from_end = algorithm.other_order.Has(product.rows) && algorithm.other_rows.Has(row);
    for (int64_t col = 0; col < product.n; ++col) {
      float sum = 0;
      for (int64_t split = 0; split < algorithm.splits; ++split) {
        sum += Sum(product, row, col, product.k * split / algorithm.splits,
                   product.k * (split + 1) / algorithm.splits, from_end);
      }
      product.y[row * product.y_stride + col] =
          sum + (product.bias == nullptr ? 0 : product.bias[col]);
    }
  }
  const auto rows = static_cast<double>(product.rows);
  stand_in.spent_us += algorithm.call_us + algorithm.row_us * rows;
  stand_in.products.push_back(algorithm.name);
}

bool IsAdvised(const StandInAlgorithm& algorithm, const Product& product,
               const Preference& preference) {
  return algorithm.advised.Has(product.rows) && product.k <= algorithm.advised_k &&
         algorithm.workspace_bytes <= preference.workspace_bytes &&
         (algorithm.splits == 1 || preference.reduction_schemes != CUBLASLT_REDUCTION_SCHEME_NONE);
}

}  // namespace

extern "C" {

CublasLtStandIn* ArilCublasLtStandIn() { return &stand_in; }

const char* cublasLtGetStatusString(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return "not supported";
  return status == CUBLAS_STATUS_INVALID_VALUE ? "invalid value" : "failed as it was told to";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (Fails(__func__)) return CUBLAS_STATUS_NOT_INITIALIZED;
  return Make(handle, char{});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return Delete<char>(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (Fails(__func__)) return CUBLAS_STATUS_ALLOC_FAILED;
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  return Make(desc, Operation{});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return Delete<Operation>(desc);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t size_bytes) {
  if (Fails(__func__)) return CUBLAS_STATUS_ALLOC_FAILED;
  auto& operation = As<Operation>(desc);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Set(operation.a, value, size_bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Set(operation.b, value, size_bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Set(operation.epilogue, value, size_bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Set(operation.bias, value, size_bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t stride) {
  if (Fails(__func__)) return CUBLAS_STATUS_ALLOC_FAILED;
  return Make(layout, Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), stride});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return Delete<Layout>(layout);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (Fails(__func__)) return CUBLAS_STATUS_ALLOC_FAILED;
  return Make(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return Delete<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t size_bytes) {
  if (Fails(__func__)) return CUBLAS_STATUS_ALLOC_FAILED;
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return Set(As<Preference>(preference).workspace_bytes, value, size_bytes);
  }
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    return Set(As<Preference>(preference).reduction_schemes, value, size_bytes);
  }
  uint32_t alignment = 0;  // of A, B, C and D: none of the algorithms minds
  return Set(alignment, value, size_bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  *count = 0;
  if (Fails(__func__)) return CUBLAS_STATUS_EXECUTION_FAILED;
  Product product;
  const cublasStatus_t described = Describe(desc, a, b, d, product);
  if (described != CUBLAS_STATUS_SUCCESS) return described;
  for (size_t i = 0; i < stand_in.algorithms.size() && *count < requested; ++i) {
    const StandInAlgorithm& algorithm = stand_in.algorithms[i];
    if (!IsAdvised(algorithm, product, As<Preference>(preference))) continue;
    results[(*count)++] = {.algo = {.data = {i}},
                           .workspaceSize = algorithm.workspace_bytes,
                           .state = CUBLAS_STATUS_SUCCESS};
  }
  return *count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (Fails(__func__)) return CUBLAS_STATUS_EXECUTION_FAILED;
  Product product;
  const cublasStatus_t described = Describe(desc, a, b, d, product);
  if (described != CUBLAS_STATUS_SUCCESS) return described;
  const StandInAlgorithm& algorithm = stand_in.algorithms[algo->data[0]];
  if (!algorithm.checked.Has(product.rows)) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = algorithm.workspace_bytes;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* w, cublasLtMatrixLayout_t a, const void* x,
                              cublasLtMatrixLayout_t b, const void* beta, const void*,
                              cublasLtMatrixLayout_t, void* y, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algo, void*, size_t workspace_bytes,
                              cudaStream_t stream) {
  if (Fails(__func__)) return CUBLAS_STATUS_EXECUTION_FAILED;
  Product product;
  const cublasStatus_t described = Describe(desc, a, b, d, product);
  if (described != CUBLAS_STATUS_SUCCESS) return described;
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const StandInAlgorithm& algorithm = stand_in.algorithms[algo->data[0]];
  if (algorithm.workspace_bytes > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  if (!algorithm.computed.Has(product.rows)) return CUBLAS_STATUS_NOT_SUPPORTED;
  product.w = w;
  product.x = x;
  product.y = static_cast<float*>(y);
  reinterpret_cast<const emulator::Stream*>(stream)->later->push_back(
      [algorithm, product] { Compute(algorithm, product); });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"

}  // namespace aril::kernels
