#include "apps/bench_kernel_cases.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/strings.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "tensor/buffer.h"

namespace aril {
namespace {

constexpr int64_t kPageTokens = 16;
constexpr int64_t kElement = 2;  // bytes of a BF16

// Small finite values of either sign in BF16.
Buffer SmallValues(int64_t size_bytes) {
  Buffer buffer(static_cast<size_t>(size_bytes));
  auto* values = buffer.as<uint16_t>();
  uint32_t state = 1;
  for (int64_t i = 0; i < size_bytes / kElement; ++i) {
    state = state * 1664525 + 1013904223;
    values[i] = static_cast<uint16_t>(0x3C00 | (state >> 16 & 0x80FF));
  }
  return buffer;
}

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

std::vector<KernelCase> GemmCases(kernels::CpuContext& context, const std::string& name, int64_t k,
                                  int64_t n, DType dtype, const std::vector<int64_t>& rows,
                                  size_t cold_bytes) {
  struct Weights {
    std::vector<kernels::PackedMatrix> copies;
    size_t next = 0;
  };
  auto weights = std::make_shared<Weights>();
  {
    const Buffer values = SmallValues(n * k * kElement);
    const TensorView view{values.data(), DType::kBF16, {n, k}};
    const auto copy_bytes = static_cast<size_t>(n * k) * SizeOf(dtype);
    for (size_t bytes = 0; bytes < cold_bytes; bytes += copy_bytes) {
      weights->copies.push_back(kernels::Pack(context, {view}, dtype));
    }
  }
  const double elements = static_cast<double>(n) * static_cast<double>(k);
  std::vector<KernelCase> cases;
  for (const int64_t num_rows : rows) {
    auto operands = std::make_shared<Rows>(num_rows, k, n);
    cases.push_back({.kernel = dtype == DType::kI8 ? "gemm int8" : "gemm",
                     .operands = StrCat(name, " ", k, " to ", n),
                     .rows = num_rows,
                     .dtype = dtype,
                     .bytes = elements * static_cast<double>(SizeOf(dtype)),
                     .operations = 2 * static_cast<double>(num_rows) * elements,
                     .compared_to = cases.size(),
                     .run = [&context, weights, operands] {
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
    mean_bytes_ = static_cast<double>(bytes) / static_cast<double>(offsets.size());
  }

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  int64_t largest_rank() const { return largest_rank_; }
  int64_t rank_bytes() const { return (in_ + out_) * kElement; }
  double mean_bytes() const { return mean_bytes_; }  // of an adapter

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
  double mean_bytes_ = 0;
  size_t next_ = 0;
};

// Segments of `each` rows, the last of what is left.
std::vector<int64_t> EqualShares(int64_t rows, int64_t each) {
  std::vector<int64_t> shares(static_cast<size_t>(rows / each), each);
  if (rows % each > 0) shares.push_back(rows % each);
  return shares;
}

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

std::vector<KernelCase> LoraCases(kernels::CpuContext& context, int64_t in, int64_t out,
                                  const LoraCasesOptions& options, size_t cold_bytes) {
  constexpr std::pair<const char*, void (LoraBatch::*)()> kOperators[] = {
      {"lora", &LoraBatch::Segmented},
      {"lora, loop over adapters", &LoraBatch::LoopOverAdapters},
      {"lora, gather and batch", &LoraBatch::GatherThenBatched}};
  const auto adapters = std::make_shared<ColdAdapters>(in, out, options.ranks, cold_bytes);
  std::vector<KernelCase> cases;
  const auto add = [&](const std::string& shared, int64_t num_rows,
                       const std::vector<int64_t>& shares) {
    const auto batch = std::make_shared<LoraBatch>(context, adapters, shares, num_rows);
    const size_t segmented = cases.size();
    for (const auto& [name, member] : kOperators) {
      cases.push_back({.kernel = name,
                       .operands = StrCat(in, " to ", out, " ", shared),
                       .rows = num_rows,
                       .bytes = static_cast<double>(shares.size()) * adapters->mean_bytes(),
                       .operations = static_cast<double>(num_rows) * adapters->mean_bytes(),
                       .compared_to = segmented,
                       .run = [batch, member = member] { ((*batch).*member)(); }});
    }
  };
  for (const int64_t num_rows : options.rows) {
    for (const PopularityKind kind : options.popularities) {
      add(Name(Popularity{.kind = kind}), num_rows, AdapterShares({.kind = kind}, num_rows));
    }
    for (const int64_t each : options.segment_rows) {
      add(StrCat(each, " rows each"), num_rows, EqualShares(num_rows, each));
    }
  }
  return cases;
}

namespace {

// Sequences whose K and V take turns over so many layers that these do not fit the caches.
class AttentionBatch {
 public:
  AttentionBatch(kernels::CpuContext& context, const ModelSpec& spec, int64_t sequences,
                 int64_t rows_each, int64_t context_tokens, size_t cold_bytes)
      : context_(context), call_{.num_heads = spec.num_heads} {
    layout_ = {.num_layers = 1,
               .num_kv_heads = spec.num_kv_heads,
               .page_tokens = kPageTokens,
               .head_dim = spec.head_dim,
               .dtype = DType::kBF16};
    const int64_t pages_each = (context_tokens + kPageTokens - 1) / kPageTokens;
    const int64_t layer_bytes = sequences * pages_each * layout_.page_bytes();
    layout_.num_layers = std::max(int64_t{1}, static_cast<int64_t>(cold_bytes) / layer_bytes);
    pool_ = SmallValues(sequences * pages_each * layout_.page_bytes());
    for (int64_t page = 0; page < sequences * pages_each; ++page) {
      pages_.push_back(pool_.data() + page * layout_.page_bytes());
    }
    for (int64_t i = 0; i < sequences; ++i) {
      sequences_.push_back(
          {.first_row = static_cast<int32_t>(i * rows_each),
           .num_rows = static_cast<int32_t>(rows_each),
           .first_position = context_tokens - rows_each,
           .pages = std::span<std::byte* const>(pages_).subspan(static_cast<size_t>(i * pages_each),
                                                                static_cast<size_t>(pages_each))});
    }
    const int64_t width = spec.q_size();
    q_ = SmallValues(sequences * rows_each * width * kElement);
    out_ = SmallValues(sequences * rows_each * width * kElement);
    out_matrix_ = {out_.data(), DType::kBF16, sequences * rows_each, width, width};
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
                                       const std::vector<int64_t>& contexts, int64_t sequences,
                                       int64_t prefill_tokens, size_t cold_bytes) {
  std::vector<KernelCase> cases;
  const auto add = [&](std::string operands, int64_t num_sequences, int64_t rows_each,
                       int64_t tokens) {
    auto batch = std::make_shared<AttentionBatch>(context, spec, num_sequences, rows_each, tokens,
                                                  cold_bytes);
    const auto rows = static_cast<double>(rows_each);
    // Row i of the last `rows_each` sees as many tokens less than the last.
    const double seen = rows * static_cast<double>(tokens) - rows * (rows - 1) / 2;
    cases.push_back(
        {.kernel = "attention",
         .operands = std::move(operands),
         .rows = num_sequences * rows_each,
         .bytes = static_cast<double>(num_sequences * tokens * 2 * spec.kv_size() * kElement),
         .operations =
             4 * static_cast<double>(num_sequences) * seen * static_cast<double>(spec.q_size()),
         .compared_to = cases.size(),
         .run = [batch] { batch->Run(); }});
  };
  for (const int64_t tokens : contexts) {
    add(StrCat("decode at ", tokens, " tokens"), sequences, 1, tokens);
  }
  if (prefill_tokens > 0) add("prefill", 1, prefill_tokens, prefill_tokens);
  return cases;
}

}  // namespace aril
