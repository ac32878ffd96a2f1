#include "apps/bench_kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/checked.h"
#include "kernels/attention/attention.h"
#include "kernels/gated_delta/gated_delta.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "model/kernel_settings.h"
#include "tensor/buffer.h"

namespace aril {
namespace {

constexpr int64_t kPageTokens = 16;
constexpr int64_t kElement = 2;  // bytes of a BF16

// Rows of BF16 in, of float out, and how they are shared.
struct Rows {
  Rows(int64_t rows, int64_t in, int64_t out)
      : x_buffer(SmallValues(rows * in * kElement)),
        y_buffer(static_cast<size_t>(rows * out) * sizeof(float)),
        x{x_buffer.data(), DType::kBF16, rows, in, in},
        y{y_buffer.as<float>(), rows, out, out} {
    std::memset(y_buffer.data(), 0, y_buffer.size_bytes());
  }

  Buffer x_buffer, y_buffer;
  kernels::ConstMatrix x;
  MatrixView<float> y;
};

}  // namespace

std::vector<KernelCase> GemmCases(kernels::CpuContext& context, const MatrixSize& size,
                                  kernels::WeightFormat format, const std::vector<int64_t>& rows,
                                  size_t cold_bytes) {
  struct Weights {
    std::vector<kernels::PackedMatrix> copies;
    size_t next = 0;
  };
  auto weights = std::make_shared<Weights>();
  {
    const SmallWeights values(size.out, size.in, format);
    const WeightView view = values.view();
    for (size_t bytes = 0; bytes < cold_bytes; bytes += weights->copies.back().data.size_bytes()) {
      weights->copies.push_back(kernels::Pack(context, {view}, format));
    }
  }
  std::vector<KernelCase> cases;
  for (const int64_t num_rows : rows) {
    auto operands = std::make_shared<Rows>(num_rows, size.in, size.out);
    KernelWork work = GemmWork(size, format, num_rows);
    work.compared_to = cases.size();
    cases.push_back({std::move(work), [&context, weights, operands] {
                       kernels::Gemm(context, operands->x,
                                     weights->copies[weights->next++ % weights->copies.size()],
                                     nullptr, operands->y);
                     }});
  }
  return cases;
}

namespace {

// The two matrices of an adapter, one after the other.
struct BenchAdapter {
  BenchAdapter(const std::byte* data, int64_t rank, int64_t in, int64_t out)
      : a{data, 0, static_cast<int32_t>(rank)},
        b{data + rank * in * kElement, 0, static_cast<int32_t>(rank)},
        a_stride(in * kElement),
        b_stride(out * kElement) {}

  kernels::LoraWeights weights() const {
    return {b.num_rows, 1.0f, {{&a, 1}, a_stride}, {{&b, 1}, b_stride}};
  }

  kernels::MatrixRun a, b;
  int64_t a_stride, b_stride;
};

// Adapters in cold memory, of which each batch takes the next ones.
class ColdAdapters {
 public:
  ColdAdapters(int64_t in, int64_t out, const std::vector<int64_t>& ranks, size_t cold_bytes)
      : in_(in), out_(out), largest_rank_(*std::ranges::max_element(ranks)) {
    std::vector<int64_t> offsets;
    int64_t bytes = 0;
    while (bytes < static_cast<int64_t>(cold_bytes) || offsets.size() % ranks.size() != 0) {
      offsets.push_back(bytes);
      bytes += ranks[(offsets.size() - 1) % ranks.size()] * rank_bytes();
    }
    pool_ = SmallValues(bytes);
    adapters_.reserve(offsets.size());
    for (size_t i = 0; i < offsets.size(); ++i) {
      adapters_.emplace_back(pool_.data() + offsets[i], ranks[i % ranks.size()], in, out);
    }
    for (const BenchAdapter& adapter : adapters_) weights_.push_back(adapter.weights());
  }

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  int64_t largest_rank() const { return largest_rank_; }
  int64_t rank_bytes() const { return (in_ + out_) * kElement; }

  // A batch whose adapters serve so many rows each.
  std::vector<kernels::LoraSegment> Next(const std::vector<int64_t>& shares) {
    std::vector<kernels::LoraSegment> segments;
    int32_t row = 0;
    for (const int64_t share : shares) {
      const auto num_rows = static_cast<int32_t>(share);
      segments.push_back({row, num_rows, {&weights_[next_++ % weights_.size()], 1}});
      row += num_rows;
    }
    return segments;
  }

 private:
  const int64_t in_, out_, largest_rank_;
  Buffer pool_;
  std::vector<BenchAdapter> adapters_;
  std::vector<kernels::LoraWeights> weights_;
  size_t next_ = 0;
};

// What one batch of the three operators needs.
class LoraBatch {
 public:
  LoraBatch(kernels::CpuContext& context, std::shared_ptr<ColdAdapters> adapters,
            const std::vector<int64_t>& shares, int64_t rows)
      : context_(context),
        adapters_(std::move(adapters)),
        shares_(shares),
        operands_(rows, adapters_->in(), adapters_->out()),
        target_{.first_col = 0, .out = adapters_->out()} {}

  void Segmented() { Run(adapters_->Next(shares_)); }

  // As a server does that batches adapter by adapter.
  void LoopOverAdapters() {
    for (const kernels::LoraSegment& segment : adapters_->Next(shares_)) Run({&segment, 1});
  }

  // Copies every row's adapter into one dense batch. The padding is multiplied, but not copied.
  void GatherThenBatched() {
    const int64_t rank = adapters_->largest_rank();
    if (copies_.empty()) {
      gathered_ = SmallValues(operands_.x.rows * rank * adapters_->rank_bytes());
      copies_.reserve(static_cast<size_t>(operands_.x.rows));
      for (int64_t row = 0; row < operands_.x.rows; ++row) {
        copies_.emplace_back(gathered_.data() + row * rank * adapters_->rank_bytes(), rank,
                             adapters_->in(), adapters_->out());
      }
      for (const BenchAdapter& copy : copies_) copy_weights_.push_back(copy.weights());
      for (size_t row = 0; row < copies_.size(); ++row) {
        rows_.push_back({static_cast<int32_t>(row), 1, {&copy_weights_[row], 1}});
      }
    }
    for (const kernels::LoraSegment& segment : adapters_->Next(shares_)) {
      const kernels::LoraWeights& from = segment.targets[0];
      for (int32_t row = segment.first_row; row < segment.first_row + segment.num_rows; ++row) {
        std::byte* const copy = gathered_.data() + row * rank * adapters_->rank_bytes();
        std::memcpy(copy, from.a.runs[0].data,
                    static_cast<size_t>(from.rank * from.a.row_stride_bytes));
        std::memcpy(copy + rank * from.a.row_stride_bytes, from.b.runs[0].data,
                    static_cast<size_t>(from.rank * from.b.row_stride_bytes));
      }
    }
    Run(rows_);
  }

 private:
  void Run(std::span<const kernels::LoraSegment> segments) {
    const kernels::LoraCall call{segments, {&target_, 1}, DType::kBF16};
    v_.resize(static_cast<size_t>(kernels::LoraIntermediateSize(call)));
    kernels::LoraShrink(context_, operands_.x, call, v_);
    kernels::LoraExpand(context_, v_, call, operands_.y);
  }

  kernels::CpuContext& context_;
  const std::shared_ptr<ColdAdapters> adapters_;
  const std::vector<int64_t> shares_;
  const Rows operands_;
  const kernels::LoraTarget target_;
  std::vector<float> v_;
  // Of GatherThenBatched.
  Buffer gathered_;
  std::vector<BenchAdapter> copies_;
  std::vector<kernels::LoraWeights> copy_weights_;
  std::vector<kernels::LoraSegment> rows_;
};

}  // namespace

std::vector<KernelCase> LoraCases(kernels::CpuContext& context, const MatrixSize& size,
                                  const LoraCasesOptions& options, size_t cold_bytes) {
  constexpr std::pair<const char*, void (LoraBatch::*)()> kOperators[] = {
      {"lora", &LoraBatch::Segmented},
      {"lora, loop over adapters", &LoraBatch::LoopOverAdapters},
      {"lora, gather and batch", &LoraBatch::GatherThenBatched}};
  const auto adapters =
      std::make_shared<ColdAdapters>(size.in, size.out, options.ranks, cold_bytes);
  std::vector<KernelCase> cases;
  for (const LoraBatchShape& shape : LoraBatches(options)) {
    const auto batch = std::make_shared<LoraBatch>(context, adapters, shape.shares, shape.rows);
    KernelWork work = LoraWork(size, options.ranks, shape);
    work.compared_to = cases.size();
    for (const auto& [name, member] : kOperators) {
      work.kernel = name;
      cases.push_back({work, [batch, member = member] { ((*batch).*member)(); }});
    }
  }
  return cases;
}

namespace {

// Sequences whose K and V take turns over so many layers that these do not fit the caches.
class AttentionBatch {
 public:
  AttentionBatch(kernels::CpuContext& context, const ModelSpec& spec,
                 const AttentionBatchShape& shape, size_t cold_bytes)
      : context_(context),
        call_{
            .num_heads = spec.num_heads, .scale = ScoreScale(spec), .softcap = ScoreSoftcap(spec)} {
    layout_ = {.num_layers = 1,
               .num_kv_heads = spec.num_kv_heads,
               .page_tokens = kPageTokens,
               .head_dim = spec.head_dim,
               .dtype = DType::kBF16};
    const int64_t pages_each = CeilDiv(shape.context, kPageTokens);
    const int64_t num_pages = shape.sequences * pages_each;
    layout_.num_layers =
        std::max(int64_t{1}, static_cast<int64_t>(cold_bytes) / (num_pages * layout_.page_bytes()));
    pool_ = SmallValues(num_pages * layout_.page_bytes());
    for (int64_t page = 0; page < num_pages; ++page) {
      pages_.push_back(pool_.data() + page * layout_.page_bytes());
    }
    for (int64_t i = 0; i < shape.sequences; ++i) {
      sequences_.push_back(
          {.first_row = static_cast<int32_t>(i * shape.rows_each),
           .num_rows = static_cast<int32_t>(shape.rows_each),
           .first_position = shape.context - shape.rows_each,
           .pages = std::span<std::byte* const>(pages_).subspan(static_cast<size_t>(i * pages_each),
                                                                static_cast<size_t>(pages_each))});
    }
    const int64_t width = spec.q_size();
    const int64_t rows = shape.sequences * shape.rows_each;
    q_ = SmallValues(rows * width * kElement);
    out_ = SmallValues(rows * width * kElement);
    out_matrix_ = {out_.data(), DType::kBF16, rows, width, width};
  }

  void Run() {
    kernels::Matrix q = out_matrix_;
    q.data = q_.data();
    kernels::Attention(context_, q, call_, layout_, sequences_, out_matrix_);
    call_.layer = (call_.layer + 1) % layout_.num_layers;
  }

 private:
  kernels::CpuContext& context_;
  kernels::AttentionCall call_;
  kernels::KvLayout layout_;
  Buffer pool_, q_, out_;
  std::vector<std::byte*> pages_;
  std::vector<kernels::AttentionSequence> sequences_;
  kernels::Matrix out_matrix_;
};

}  // namespace

std::vector<KernelCase> AttentionCases(kernels::CpuContext& context, const ModelSpec& spec,
                                       const std::vector<AttentionBatchShape>& batches,
                                       size_t cold_bytes) {
  std::vector<KernelCase> cases;
  for (const AttentionBatchShape& shape : batches) {
    auto batch = std::make_shared<AttentionBatch>(context, spec, shape, cold_bytes);
    KernelWork work = AttentionWork(spec, shape);
    work.compared_to = cases.size();
    cases.push_back({std::move(work), [batch] { batch->Run(); }});
  }
  return cases;
}

namespace {

// Sequences whose states take turns over so many layers that these do not fit the caches.
class DeltaBatch {
 public:
  DeltaBatch(kernels::CpuContext& context, const LinearAttentionSpec& linear,
             const AttentionBatchShape& shape, size_t cold_bytes)
      : context_(context) {
    const kernels::DeltaShape delta = DeltaShapeOf(linear);
    layout_ = {.num_layers = 1, .shape = delta, .page_bytes = kPageRows * delta.value_dim * 4};
    const int64_t layer_bytes = shape.sequences * layout_.num_pages() * layout_.page_bytes;
    layout_.num_layers = std::max(int64_t{1}, static_cast<int64_t>(cold_bytes) / layer_bytes);
    const int64_t num_pages = layout_.num_pages();
    pool_ = SmallValues(shape.sequences * num_pages * layout_.page_bytes);  // as floats, too
    for (int64_t page = 0; page < shape.sequences * num_pages; ++page) {
      pages_.push_back(pool_.data() + page * layout_.page_bytes);
    }
    for (int64_t i = 0; i < shape.sequences; ++i) {
      sequences_.push_back(
          {.first_row = static_cast<int32_t>(i * shape.rows_each),
           .num_rows = static_cast<int32_t>(shape.rows_each),
           .first_position = shape.context,
           .pages = {},
           .state = std::span<std::byte* const>(pages_).subspan(static_cast<size_t>(i * num_pages),
                                                                static_cast<size_t>(num_pages))});
    }
    const int64_t rows = shape.sequences * shape.rows_each;
    in_ = Floats(rows * delta.num_columns());
    weights_ = Floats(delta.conv_size * delta.num_channels());
    call_ = {.conv = weights_.as<float>(),
             .decay = weights_.as<float>(),
             .dt_bias = weights_.as<float>(),
             .norm = weights_.as<float>(),
             .norm_eps = 1e-6f};
    in_matrix_ = {in_.as<float>(), rows, delta.num_columns(), delta.num_columns()};
    out_ = SmallValues(rows * delta.value_size() * kElement);
    out_matrix_ = {out_.data(), DType::kBF16, rows, delta.value_size(), delta.value_size()};
  }

  void Run() {
    kernels::GatedDelta(context_, in_matrix_, call_, layout_, sequences_, out_matrix_);
    call_.layer = (call_.layer + 1) % layout_.num_layers;
  }

 private:
  static constexpr int64_t kPageRows = 96;  // as Qwen3.5-0.8B's pages have

  // Of SmallValues' size, but none below 0: heads forget.
  static Buffer Floats(int64_t count) {
    const Buffer small = SmallValues(count * kElement);
    Buffer floats(static_cast<size_t>(count) * sizeof(float));
    const auto* const values = small.as<BF16>();
    for (int64_t i = 0; i < count; ++i) floats.as<float>()[i] = std::fabs(ToFloat(values[i]));
    return floats;
  }

  kernels::CpuContext& context_;
  kernels::DeltaCall call_;
  kernels::StateLayout layout_;
  Buffer pool_, in_, weights_, out_;
  std::vector<std::byte*> pages_;
  std::vector<kernels::AttentionSequence> sequences_;
  MatrixView<const float> in_matrix_;
  kernels::Matrix out_matrix_;
};

}  // namespace

std::vector<KernelCase> DeltaCases(kernels::CpuContext& context, const ModelSpec& spec,
                                   const std::vector<AttentionBatchShape>& batches,
                                   size_t cold_bytes) {
  std::vector<KernelCase> cases;
  for (const AttentionBatchShape& shape : batches) {
    auto batch = std::make_shared<DeltaBatch>(context, *spec.linear_attention, shape, cold_bytes);
    KernelWork work = DeltaWork(*spec.linear_attention, shape);
    work.compared_to = cases.size();
    cases.push_back({std::move(work), [batch] { batch->Run(); }});
  }
  return cases;
}

}  // namespace aril
