#include "apps/bench_cuda_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "base/checked.h"
#include "base/strings.h"
#include "kernels/attention/attention_plan.h"
#include "kernels/lora/lora_plan.h"

namespace aril {
namespace {

using kernels::CudaDevice;
using kernels::DeviceBuffer;

constexpr int64_t kElement = 2;  // bytes of a BF16
constexpr int64_t kPageTokens = 16;
constexpr uint64_t kSeed = 1;
constexpr int kCheckedPlaces = 64;
constexpr int kLastCall = kCudaCalls - 1;
// As a model's backend has.
constexpr int64_t kPartialBytes = int64_t{32} << 20;
// What sums of some thousand products may miss in fp32, by far; and what weights and results that
// are rounded to BF16 may: 2^-9 of each, and of their sum. What is wrong misses by about 1.
constexpr double kSumError = 1e-4;
constexpr double kBf16Error = 0x1p-7;

double ToDouble(const Buffer& buffer, int64_t index) {
  return static_cast<double>(ToFloat(buffer.as<BF16>()[index]));
}

StatusOr<DeviceBuffer> Upload(CudaDevice& device, const void* data, size_t size_bytes) {
  ASSIGN_OR_RETURN(DeviceBuffer buffer, DeviceBuffer::Allocate(device, size_bytes));
  RETURN_IF_ERROR(device.CopyToDevice(buffer.data(), data, size_bytes));
  RETURN_IF_ERROR(device.Synchronize());
  return buffer;
}
StatusOr<DeviceBuffer> Upload(CudaDevice& device, const Buffer& buffer) {
  return Upload(device, buffer.data(), buffer.size_bytes());
}
StatusOr<Buffer> Download(CudaDevice& device, const DeviceBuffer& from) {
  Buffer buffer(from.size_bytes());
  RETURN_IF_ERROR(device.CopyToHost(buffer.data(), from.data(), from.size_bytes()));
  RETURN_IF_ERROR(device.Synchronize());
  return buffer;
}

// Compares [rows, cols] at some places: relative to all of them together.
Status Compare(int64_t rows, int64_t cols, const std::function<double(int64_t, int64_t)>& got,
               const std::function<double(int64_t, int64_t)>& expected, double bound) {
  std::mt19937_64 random(kSeed);
  double error = 0, norm = 0;
  for (int i = 0; i < kCheckedPlaces; ++i) {
    const auto row = static_cast<int64_t>(random() % static_cast<uint64_t>(rows));
    const auto col = static_cast<int64_t>(random() % static_cast<uint64_t>(cols));
    const double right = expected(row, col);
    error += std::pow(got(row, col) - right, 2);
    norm += std::pow(right, 2);
  }
  // Also of what is no number.
  if (std::sqrt(error) <= bound * std::sqrt(norm)) return OkStatus();
  return Internal(StrCat("a wrong result: it misses by ", std::sqrt(error / norm),
                         " of what is right, in the mean of ", kCheckedPlaces,
                         " places drawn with the seed ", kSeed));
}

// --- Products ---

class GemmCalls {
 public:
  static StatusOr<std::shared_ptr<GemmCalls>> Make(CudaDevice& device, const MatrixSize& size,
                                                   int64_t max_rows, size_t cold_bytes) {
    std::shared_ptr<GemmCalls> calls(new GemmCalls(device, size, max_rows));
    calls->host_w_ = SmallValues(size.out * size.in * kElement);
    calls->host_x_ = SmallValues(max_rows * size.in * kElement);
    ASSIGN_OR_RETURN(calls->x_, Upload(device, calls->host_x_));
    ASSIGN_OR_RETURN(
        calls->y_,
        DeviceBuffer::Allocate(device, static_cast<size_t>(max_rows * size.out) * sizeof(float)));
    for (size_t bytes = 0; bytes < cold_bytes; bytes += calls->host_w_.size_bytes()) {
      ASSIGN_OR_RETURN(calls->copies_.emplace_back(), Upload(device, calls->host_w_));
    }
    return calls;
  }

  Status Enqueue(kernels::CudaGemm& gemm, int64_t rows, int call) {
    return gemm.Run({.dtype = DType::kBF16,
                     .rows = rows,
                     .max_rows = max_rows_,
                     .n = size_.out,
                     .k = size_.in,
                     .x = x_.data(),
                     .x_stride = size_.in,
                     .w = copies_[static_cast<size_t>(call) % copies_.size()].data(),
                     .y = y_.as<float>(),
                     .y_stride = size_.out});
  }

  Status Check(kernels::CudaGemm& gemm, int64_t rows) {
    RETURN_IF_ERROR(device_.Set(y_.data(), 0xFF, y_.size_bytes()));
    RETURN_IF_ERROR(Enqueue(gemm, rows, kLastCall));
    ASSIGN_OR_RETURN(const Buffer y, Download(device_, y_));
    return Compare(
        rows, size_.out,
        [&](int64_t row, int64_t col) { return y.as<float>()[row * size_.out + col]; },
        [&](int64_t row, int64_t col) {
          double sum = 0;
          for (int64_t k = 0; k < size_.in; ++k) {
            sum += ToDouble(host_x_, row * size_.in + k) * ToDouble(host_w_, col * size_.in + k);
          }
          return sum;
        },
        kSumError);
  }

 private:
  GemmCalls(CudaDevice& device, MatrixSize size, int64_t max_rows)
      : device_(device),
        size_(std::move(size)),
        max_rows_(std::max(max_rows, kernels::kUsualGemmRows)) {}

  CudaDevice& device_;
  const MatrixSize size_;
  const int64_t max_rows_;  // of a server whose steps have so many
  Buffer host_w_, host_x_;
  std::vector<DeviceBuffer> copies_;  // of W
  DeviceBuffer x_, y_;
};

// --- LoRA ---

// Adapters in cold memory, of which each call takes the next ones.
class LoraAdapters {
 public:
  static StatusOr<std::shared_ptr<LoraAdapters>> Make(CudaDevice& device, const MatrixSize& size,
                                                      const std::vector<int64_t>& ranks,
                                                      int64_t max_rows, size_t cold_bytes) {
    std::shared_ptr<LoraAdapters> adapters(new LoraAdapters(size));
    int64_t bytes = 0;
    while (bytes < static_cast<int64_t>(cold_bytes) ||
           adapters->offsets_.size() % ranks.size() != 0) {
      const int64_t rank = ranks[adapters->offsets_.size() % ranks.size()];
      adapters->offsets_.push_back(bytes);
      adapters->ranks_.push_back(static_cast<int32_t>(rank));
      bytes += rank * (size.in + size.out) * kElement;
    }
    adapters->host_pool_ = SmallValues(bytes);
    adapters->host_x_ = SmallValues(max_rows * size.in * kElement);
    ASSIGN_OR_RETURN(adapters->pool_, Upload(device, adapters->host_pool_));
    ASSIGN_OR_RETURN(adapters->x_, Upload(device, adapters->host_x_));
    const std::vector<kernels::LoraDeviceWeights> weights = adapters->Describe();
    ASSIGN_OR_RETURN(adapters->weights_,
                     Upload(device, weights.data(), weights.size() * sizeof(weights[0])));
    return adapters;
  }

  const MatrixSize& size() const { return size_; }
  size_t count() const { return offsets_.size(); }
  std::span<const int32_t> rank(size_t adapter) const { return {&ranks_[adapter], 1}; }
  const kernels::LoraDeviceWeights* weights(size_t adapter) const {
    return weights_.as<kernels::LoraDeviceWeights>() + adapter;
  }
  const std::byte* x() const { return x_.data(); }

  // What an adapter adds to y at a row and a column.
  double Expected(size_t adapter, int64_t row, int64_t col) const {
    const int64_t rank = ranks_[adapter], a = offsets_[adapter] / kElement;
    const int64_t b = a + rank * size_.in;
    double sum = 0;
    for (int64_t j = 0; j < rank; ++j) {
      double v = 0;
      for (int64_t k = 0; k < size_.in; ++k) {
        v += ToDouble(host_x_, row * size_.in + k) * ToDouble(host_pool_, a + j * size_.in + k);
      }
      sum += v * ToDouble(host_pool_, b + j * size_.out + col);
    }
    return kScale * sum;
  }

 private:
  static constexpr float kScale = 0.5f;

  explicit LoraAdapters(MatrixSize size) : size_(std::move(size)) {}

  // A [rank, in], and behind it Bᵀ [rank, out].
  std::vector<kernels::LoraDeviceWeights> Describe() const {
    std::vector<kernels::LoraDeviceWeights> weights;
    for (size_t i = 0; i < count(); ++i) {
      const kernels::MatrixRun a{pool_.data() + offsets_[i], 0, ranks_[i]};
      const kernels::MatrixRun b{a.data + ranks_[i] * size_.in * kElement, 0, ranks_[i]};
      weights.push_back({.a = kernels::DescribeLoraMatrix({{&a, 1}, size_.in * kElement}, nullptr),
                         .b = kernels::DescribeLoraMatrix({{&b, 1}, size_.out * kElement}, nullptr),
                         .gain = {},
                         .rank = ranks_[i],
                         .scale = kScale});
    }
    return weights;
  }

  const MatrixSize size_;
  std::vector<int64_t> offsets_;  // bytes of the pool
  std::vector<int32_t> ranks_;
  Buffer host_pool_, host_x_;
  DeviceBuffer pool_, x_, weights_;
};

enum class LoraMode { kTogether, kOneByOne };

// A batch of one shape, in kCudaCalls calls.
class LoraCalls {
 public:
  static StatusOr<std::shared_ptr<LoraCalls>> Make(CudaDevice& device,
                                                   std::shared_ptr<LoraAdapters> adapters,
                                                   const LoraBatchShape& shape, LoraMode mode) {
    std::shared_ptr<LoraCalls> calls(new LoraCalls(device, std::move(adapters), shape));
    std::vector<std::byte> tables;
    int64_t v_floats = 0;
    for (int call = 0; call < kCudaCalls; ++call) calls->Plan(mode, call, &tables, &v_floats);
    ASSIGN_OR_RETURN(calls->tables_, Upload(device, tables.data(), tables.size()));
    ASSIGN_OR_RETURN(calls->v_,
                     DeviceBuffer::Allocate(device, static_cast<size_t>(v_floats) * sizeof(float)));
    ASSIGN_OR_RETURN(calls->y_, DeviceBuffer::Allocate(
                                    device, static_cast<size_t>(shape.rows * calls->size().out) *
                                                sizeof(float)));
    return calls;
  }

  int num_kernels() const { return 2 * static_cast<int>(calls_.front().size()); }

  Status Enqueue(int call) {
    const kernels::CudaKernels& kernels = device_.kernels();
    for (const Pair& pair : calls_[static_cast<size_t>(call)]) {
      const auto* const tables =
          reinterpret_cast<const kernels::LoraTables*>(tables_.data() + pair.tables_offset);
      RETURN_IF_ERROR(device_.Check(kernels.lora_shrink(device_.context(), DType::kBF16,
                                                        {.tables = tables,
                                                         .x = adapters_->x(),
                                                         .x_stride = size().in,
                                                         .in = static_cast<int32_t>(size().in),
                                                         .v = v_.as<float>()}),
                                    "LoRA shrink"));
      RETURN_IF_ERROR(device_.Check(kernels.lora_expand(device_.context(), DType::kBF16,
                                                        {.tables = tables,
                                                         .max_rank = pair.max_rank,
                                                         .v = v_.as<float>(),
                                                         .y = y_.as<float>(),
                                                         .y_stride = size().out}),
                                    "LoRA expand"));
    }
    return OkStatus();
  }

  Status Check() {
    RETURN_IF_ERROR(device_.Set(y_.data(), 0, y_.size_bytes()));
    RETURN_IF_ERROR(Enqueue(kLastCall));
    ASSIGN_OR_RETURN(const Buffer y, Download(device_, y_));
    return Compare(
        shape_.rows, size().out,
        [&](int64_t row, int64_t col) { return y.as<float>()[row * size().out + col]; },
        [&](int64_t row, int64_t col) {
          return adapters_->Expected(AdapterOf(kLastCall, SegmentOf(row)), row, col);
        },
        kSumError);
  }

 private:
  // A shrink and an expand.
  struct Pair {
    size_t tables_offset = 0;
    int32_t max_rank = 0;
  };

  LoraCalls(CudaDevice& device, std::shared_ptr<LoraAdapters> adapters, LoraBatchShape shape)
      : device_(device), adapters_(std::move(adapters)), shape_(std::move(shape)) {}

  const MatrixSize& size() const { return adapters_->size(); }
  size_t AdapterOf(int call, size_t segment) const {
    return (static_cast<size_t>(call) * shape_.shares.size() + segment) % adapters_->count();
  }
  size_t SegmentOf(int64_t row) const {
    size_t segment = 0;
    for (; row >= shape_.shares[segment]; ++segment) row -= shape_.shares[segment];
    return segment;
  }

  void Plan(LoraMode mode, int call, std::vector<std::byte>* tables, int64_t* v_floats) {
    std::vector<kernels::LoraPlanSegment> segments;
    int32_t row = 0;
    for (size_t i = 0; i < shape_.shares.size(); ++i) {
      const size_t adapter = AdapterOf(call, i);
      const auto num_rows = static_cast<int32_t>(shape_.shares[i]);
      segments.push_back({row, num_rows, 1, adapters_->weights(adapter), adapters_->rank(adapter)});
      row += num_rows;
    }
    const size_t each = mode == LoraMode::kTogether ? segments.size() : 1;
    std::vector<Pair>& pairs = calls_.emplace_back();
    for (size_t first = 0; first < segments.size(); first += each) {
      const kernels::LoraPlan plan(
          {size().in, {&size().out, 1}, device_.context().num_multiprocessors},
          std::span(segments).subspan(first, each));
      pairs.push_back({tables->size(), plan.max_rank()});
      constexpr int64_t kAligned = alignof(kernels::LoraTables);
      tables->resize(tables->size() +
                     static_cast<size_t>(CeilDiv(plan.table_bytes(), kAligned) * kAligned));
      plan.Write(tables->data() + pairs.back().tables_offset);
      *v_floats = std::max(*v_floats, plan.v_floats());
    }
  }

  CudaDevice& device_;
  const std::shared_ptr<LoraAdapters> adapters_;
  const LoraBatchShape shape_;
  std::vector<std::vector<Pair>> calls_;
  DeviceBuffer tables_, v_, y_;
};

// --- Attention ---

// A batch of one shape, whose calls go round the layers of its pages.
class AttentionCalls {
 public:
  static StatusOr<std::shared_ptr<AttentionCalls>> Make(CudaDevice& device, const ModelSpec& spec,
                                                        const AttentionBatchShape& shape,
                                                        size_t cold_bytes) {
    std::shared_ptr<AttentionCalls> calls(new AttentionCalls(device, spec, shape));
    RETURN_IF_ERROR(calls->MakePages(cold_bytes));
    RETURN_IF_ERROR(calls->MakePlan());
    const int64_t rows = shape.sequences * shape.rows_each;
    calls->host_q_ = SmallValues(rows * spec.q_size() * kElement);
    ASSIGN_OR_RETURN(calls->q_, Upload(device, calls->host_q_));
    ASSIGN_OR_RETURN(calls->out_, DeviceBuffer::Allocate(device, calls->q_.size_bytes()));
    return calls;
  }

  int num_kernels() const { return max_tiles_ > 0 ? 2 : 1; }

  Status Enqueue(int call) {
    return device_.Check(
        device_.kernels().attention(device_.context(), DType::kBF16,
                                    {.tables = tables_.as<kernels::AttentionTables>(),
                                     .max_items = max_items_,
                                     .max_tiles = max_tiles_,
                                     .max_partials = max_partials_,
                                     .partials = partials_.as<float>(),
                                     .q = q_.data(),
                                     .q_stride = spec_.q_size(),
                                     .layer = kernels::LayerOf(layout_, call % layout_.num_layers),
                                     .num_heads = static_cast<int32_t>(spec_.num_heads),
                                     .scale = static_cast<float>(scale()),
                                     .out = out_.data(),
                                     .out_stride = spec_.q_size()}),
        "attention");
  }

  Status Check() {
    RETURN_IF_ERROR(device_.Set(out_.data(), 0xFF, out_.size_bytes()));
    RETURN_IF_ERROR(Enqueue(kLastCall));
    ASSIGN_OR_RETURN(const Buffer out, Download(device_, out_));
    return Compare(
        shape_.sequences * shape_.rows_each, spec_.q_size(),
        [&](int64_t row, int64_t col) { return ToDouble(out, row * spec_.q_size() + col); },
        [&](int64_t row, int64_t col) { return Expected(row, col); }, kBf16Error);
  }

 private:
  AttentionCalls(CudaDevice& device, const ModelSpec& spec, AttentionBatchShape shape)
      : device_(device), spec_(spec), shape_(std::move(shape)) {}

  double scale() const { return 1 / std::sqrt(static_cast<double>(spec_.head_dim)); }
  int64_t pages_each() const { return CeilDiv(shape_.context, kPageTokens); }

  Status MakePages(size_t cold_bytes) {
    layout_ = {.num_layers = 1,
               .num_kv_heads = spec_.num_kv_heads,
               .page_tokens = kPageTokens,
               .head_dim = spec_.head_dim,
               .dtype = DType::kBF16};
    const int64_t num_pages = shape_.sequences * pages_each();
    layout_.num_layers =
        std::max(int64_t{1}, static_cast<int64_t>(cold_bytes) / (num_pages * layout_.page_bytes()));
    host_pool_ = SmallValues(num_pages * layout_.page_bytes());
    ASSIGN_OR_RETURN(pool_, Upload(device_, host_pool_));
    for (int64_t page = 0; page < num_pages; ++page) {
      pages_.push_back(pool_.data() + page * layout_.page_bytes());
    }
    ASSIGN_OR_RETURN(page_table_,
                     Upload(device_, pages_.data(), pages_.size() * sizeof(pages_[0])));
    return OkStatus();
  }

  Status MakePlan() {
    std::vector<kernels::AttentionSequence> sequences;
    std::vector<std::byte* const*> tables_of;
    for (int64_t i = 0; i < shape_.sequences; ++i) {
      const auto first_page = static_cast<size_t>(i * pages_each());
      sequences.push_back({.first_row = static_cast<int32_t>(i * shape_.rows_each),
                           .num_rows = static_cast<int32_t>(shape_.rows_each),
                           .first_position = shape_.context - shape_.rows_each,
                           .pages = std::span<std::byte* const>(pages_).subspan(
                               first_page, static_cast<size_t>(pages_each()))});
      tables_of.push_back(page_table_.as<std::byte*>() + first_page);
    }
    const int64_t floats_each = kernels::AttentionPartialFloats(kernels::LayerOf(layout_, 0), 1);
    const kernels::AttentionPlan plan(
        {.dtype = DType::kBF16,
         .num_heads = spec_.num_heads,
         .num_kv_heads = spec_.num_kv_heads,
         .head_dim = spec_.head_dim,
         .num_multiprocessors = device_.context().num_multiprocessors,
         .max_partials = kPartialBytes / static_cast<int64_t>(sizeof(float)) / floats_each},
        sequences);
    max_items_ = static_cast<int32_t>(plan.items().size());
    max_tiles_ = plan.is_split() ? static_cast<int32_t>(plan.tiles().size()) : 0;
    max_partials_ = plan.num_partials();
    ASSIGN_OR_RETURN(partials_,
                     DeviceBuffer::Allocate(
                         device_, sizeof(float) * static_cast<size_t>(std::max(
                                                      int64_t{1}, floats_each * max_partials_))));
    ASSIGN_OR_RETURN(lists_, DeviceBuffer::Allocate(device_, plan.lists_bytes()));
    std::vector<std::byte> lists(plan.lists_bytes());
    kernels::AttentionTables tables;
    plan.Write(tables, lists.data(), lists_.data(), tables_of);
    RETURN_IF_ERROR(device_.CopyToDevice(lists_.data(), lists.data(), lists.size()));
    RETURN_IF_ERROR(device_.Synchronize());
    ASSIGN_OR_RETURN(tables_, Upload(device_, &tables, sizeof(tables)));
    return OkStatus();
  }

  // An element of K or V of a sequence, in the last call's layer.
  double KeyOrValue(int64_t sequence, int64_t token, int64_t offset, int64_t dim) const {
    const int64_t page = sequence * pages_each() + token / kPageTokens;
    const int64_t at = page * layout_.page_bytes() + offset +
                       token % kPageTokens * layout_.row_bytes() + dim * kElement;
    return ToDouble(host_pool_, at / kElement);
  }

  double Expected(int64_t row, int64_t col) const {
    const int64_t sequence = row / shape_.rows_each, head = col / spec_.head_dim;
    const int64_t seen = shape_.context - shape_.rows_each + row % shape_.rows_each + 1;
    const int64_t kv_head = head / (spec_.num_heads / spec_.num_kv_heads);
    const int64_t layer = kLastCall % layout_.num_layers;
    std::vector<double> scores(static_cast<size_t>(seen));
    for (int64_t token = 0; token < seen; ++token) {
      double& score = scores[static_cast<size_t>(token)];
      for (int64_t d = 0; d < spec_.head_dim; ++d) {
        score += ToDouble(host_q_, row * spec_.q_size() + head * spec_.head_dim + d) *
                 KeyOrValue(sequence, token, layout_.KeyOffset(layer, kv_head), d);
      }
    }
    const double largest = std::ranges::max(scores);
    double sum = 0, weights = 0;
    for (int64_t token = 0; token < seen; ++token) {
      const double weight = std::exp(scale() * (scores[static_cast<size_t>(token)] - largest));
      weights += weight;
      sum += weight *
             KeyOrValue(sequence, token, layout_.ValueOffset(layer, kv_head), col % spec_.head_dim);
    }
    return sum / weights;
  }

  CudaDevice& device_;
  const ModelSpec spec_;
  const AttentionBatchShape shape_;
  kernels::KvLayout layout_;
  Buffer host_pool_, host_q_;
  std::vector<std::byte*> pages_;  // on the device
  int32_t max_items_ = 0, max_tiles_ = 0, max_partials_ = 0;
  DeviceBuffer pool_, page_table_, lists_, tables_, partials_, q_, out_;
};

}  // namespace

StatusOr<std::vector<CudaKernelCase>> CudaGemmCases(CudaDevice& device, const CudaGemms& gemms,
                                                    const MatrixSize& size,
                                                    const std::vector<int64_t>& rows,
                                                    size_t cold_bytes) {
  ASSIGN_OR_RETURN(const std::shared_ptr<GemmCalls> calls,
                   GemmCalls::Make(device, size, std::ranges::max(rows), cold_bytes));
  std::vector<CudaKernelCase> cases;
  for (const int64_t num_rows : rows) {
    KernelWork work = GemmWork(size, DType::kBF16, num_rows);
    work.compared_to = cases.size();
    for (kernels::CudaGemm* const gemm : {&gemms.fastest, &gemms.fixed}) {
      if (gemm == &gemms.fixed) work.kernel = "gemm, fixed";
      cases.push_back({.work = work,
                       .num_kernels = 1,
                       .enqueue = [=](int call) { return calls->Enqueue(*gemm, num_rows, call); },
                       .check = [=] { return calls->Check(*gemm, num_rows); }});
    }
  }
  return cases;
}

StatusOr<std::vector<CudaKernelCase>> CudaLoraCases(CudaDevice& device, const MatrixSize& size,
                                                    const LoraCasesOptions& options,
                                                    size_t cold_bytes) {
  ASSIGN_OR_RETURN(
      const std::shared_ptr<LoraAdapters> adapters,
      LoraAdapters::Make(device, size, options.ranks, std::ranges::max(options.rows), cold_bytes));
  std::vector<CudaKernelCase> cases;
  for (const LoraBatchShape& shape : LoraBatches(options)) {
    KernelWork work = LoraWork(size, options.ranks, shape);
    work.bytes += static_cast<double>(shape.rows * size.in * kElement);
    work.bytes += 2 * static_cast<double>(shape.rows * size.out) * sizeof(float);
    work.compared_to = cases.size();
    for (const LoraMode mode : {LoraMode::kTogether, LoraMode::kOneByOne}) {
      if (mode == LoraMode::kOneByOne) work.kernel = "lora, loop over adapters";
      ASSIGN_OR_RETURN(const std::shared_ptr<LoraCalls> calls,
                       LoraCalls::Make(device, adapters, shape, mode));
      cases.push_back({.work = work,
                       .num_kernels = calls->num_kernels(),
                       .enqueue = [calls](int call) { return calls->Enqueue(call); },
                       .check = [calls] { return calls->Check(); }});
    }
  }
  return cases;
}

StatusOr<std::vector<CudaKernelCase>> CudaAttentionCases(
    CudaDevice& device, const ModelSpec& spec, const std::vector<AttentionBatchShape>& batches,
    size_t cold_bytes) {
  if (spec.head_dim % 2 != 0 || spec.head_dim > kernels::kAttentionMaxHeadDim) {
    return InvalidArgument(StrCat("attention on a GPU has even head_dims up to ",
                                  kernels::kAttentionMaxHeadDim, ", not ", spec.head_dim));
  }
  std::vector<CudaKernelCase> cases;
  for (const AttentionBatchShape& shape : batches) {
    ASSIGN_OR_RETURN(const std::shared_ptr<AttentionCalls> calls,
                     AttentionCalls::Make(device, spec, shape, cold_bytes));
    KernelWork work = AttentionWork(spec, shape);
    work.compared_to = cases.size();
    cases.push_back({.work = std::move(work),
                     .num_kernels = calls->num_kernels(),
                     .enqueue = [calls](int call) { return calls->Enqueue(call); },
                     .check = [calls] { return calls->Check(); }});
  }
  return cases;
}

}  // namespace aril
