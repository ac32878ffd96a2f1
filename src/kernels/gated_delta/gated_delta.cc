#include "kernels/gated_delta/gated_delta.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/cpu/kernel_table.h"

namespace aril::kernels {
namespace {

// log(1 + e^x); in double, so that nothing of it is lost.
double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

// One call: in five passes, each over pieces that do not know of each other.
class Job {
 public:
  Job(CpuContext& context, MatrixView<const float> in, const DeltaCall& call,
      const StateLayout& layout, std::span<const AttentionSequence> sequences, const Matrix& out)
      : context_(context),
        kernels_(context.kernels()),
        in_(in),
        call_(call),
        layout_(layout),
        shape_(layout.shape),
        sequences_(sequences),
        out_(out),
        history_size_((shape_.conv_size - 1) * shape_.num_channels()) {
    const int64_t num_sequences = std::ssize(sequences);
    const int64_t row_size = shape_.num_channels() + shape_.value_size() + 2 * Heads();
    float* scratch = reinterpret_cast<float*>(context.Scratch(
        static_cast<size_t>(num_sequences * history_size_ + in.rows * row_size) * sizeof(float)));
    histories_ = scratch;
    keys_ = histories_ + num_sequences * history_size_;
    values_ = keys_ + in.rows * 2 * shape_.key_size();
    results_ = values_ + in.rows * shape_.value_size();
    decays_ = results_ + in.rows * shape_.value_size();
    betas_ = decays_ + in.rows * Heads();
  }

  void Run() {
    const int64_t num_sequences = std::ssize(sequences_);
    ThreadPool& threads = context_.threads();
    threads.ParallelFor(num_sequences, [&](int64_t s) { ReadHistory(s); });
    ForEachRow([&](int64_t s, int64_t row) { Prepare(s, row); });
    threads.ParallelFor(num_sequences, [&](int64_t s) { WriteHistory(s); });
    const std::vector<Task> tasks = MakeTasks();
    threads.ParallelFor(std::ssize(tasks),
                        [&](int64_t i) { RunTask(tasks[static_cast<size_t>(i)]); });
    ForEachRow([&](int64_t s, int64_t row) { Finish(Sequence(s).first_row + row); });
  }

 private:
  int64_t Heads() const { return shape_.num_value_heads; }
  const AttentionSequence& Sequence(int64_t s) const { return sequences_[static_cast<size_t>(s)]; }

  // run(sequence, row of it), for all of them.
  template <typename F>
  void ForEachRow(const F& run) {
    std::vector<int64_t> ends;
    for (const AttentionSequence& sequence : sequences_) {
      ends.push_back((ends.empty() ? 0 : ends.back()) + sequence.num_rows);
    }
    if (ends.empty()) return;
    context_.threads().ParallelFor(ends.back(), [&](int64_t i) {
      const auto end = std::ranges::upper_bound(ends, i);
      const int64_t s = end - ends.begin();
      run(s, i - (*end - Sequence(s).num_rows));
    });
  }

  // A row of [heads, rows, size].
  float* OfHead(float* x, int64_t head, int64_t row, int64_t size) const {
    return x + (head * in_.rows + row) * size;
  }

  float* StateRow(const AttentionSequence& sequence, int64_t row) const {
    const int64_t per_page = layout_.rows_per_page();
    std::byte* const page = sequence.state[static_cast<size_t>(row / per_page)];
    return reinterpret_cast<float*>(page + row % per_page * layout_.row_bytes());
  }

  // run(row of the state, first channel, channels) for the parts of an input.
  template <typename F>
  void ForEachPart(int64_t position, const F& run) const {
    int64_t row = layout_.InputRow(call_.layer, position);
    for (int64_t c = 0; c < shape_.num_channels(); c += shape_.value_dim, ++row) {
      run(row, c, std::min(shape_.value_dim, shape_.num_channels() - c));
    }
  }

  // [conv_size - 1][num_channels]: inputs before the sequence's first row, the oldest first.
  float* History(int64_t s) const { return histories_ + s * history_size_; }

  void ReadHistory(int64_t s) {
    const AttentionSequence& sequence = Sequence(s);
    for (int64_t i = 0; i + 1 < shape_.conv_size; ++i) {
      const int64_t position = sequence.first_position - (shape_.conv_size - 1) + i;
      float* const input = History(s) + i * shape_.num_channels();
      if (position < 0) continue;  // Prepare does not look
      ForEachPart(position, [&](int64_t row, int64_t c, int64_t n) {
        std::copy_n(StateRow(sequence, row), n, input + c);
      });
    }
  }

  // The last ones of the rows; what is older and still seen, is there.
  void WriteHistory(int64_t s) {
    const AttentionSequence& sequence = Sequence(s);
    const int64_t first = std::max<int64_t>(0, sequence.num_rows - shape_.conv_size);
    for (int64_t i = first; i < sequence.num_rows; ++i) {
      const float* const input = in_.row(sequence.first_row + i);
      ForEachPart(sequence.first_position + i, [&](int64_t row, int64_t c, int64_t n) {
        std::copy_n(input + c, n, StateRow(sequence, row));
      });
    }
  }

  void Prepare(int64_t s, int64_t row_of_sequence) {
    const AttentionSequence& sequence = Sequence(s);
    const int64_t row = sequence.first_row + row_of_sequence;
    std::array<const float*, kMaxDeltaConvSize> inputs = {};
    for (int64_t i = 0; i < shape_.conv_size; ++i) {
      const int64_t of_sequence = row_of_sequence - (shape_.conv_size - 1) + i;
      if (sequence.first_position + of_sequence < 0) continue;
      inputs[static_cast<size_t>(i)] =
          of_sequence >= 0
              ? in_.row(sequence.first_row + of_sequence)
              : History(s) + (of_sequence + shape_.conv_size - 1) * shape_.num_channels();
    }
    DeltaConvHead conv = {.inputs = inputs.data(),
                          .conv = call_.conv,
                          .conv_size = shape_.conv_size,
                          .num_channels = shape_.num_channels(),
                          .first_channel = 0,
                          .size = shape_.key_dim,
                          .is_normed = true,
                          .scale = 1.0f / std::sqrt(static_cast<float>(shape_.key_dim)),
                          .out = nullptr};
    for (int64_t h = 0; h < 2 * shape_.num_key_heads; ++h, conv.first_channel += conv.size) {
      if (h == shape_.num_key_heads) conv.scale = 1;  // the keys
      conv.out = OfHead(keys_, h, row, conv.size);
      kernels_.delta_conv(conv);
    }
    conv.size = shape_.value_dim;
    conv.is_normed = false;
    for (int64_t h = 0; h < Heads(); ++h, conv.first_channel += conv.size) {
      conv.out = OfHead(values_, h, row, conv.size);
      kernels_.delta_conv(conv);
    }
    const float* const b = in_.row(row) + shape_.num_channels() + shape_.value_size();
    const float* const a = b + Heads();
    for (int64_t h = 0; h < Heads(); ++h) {
      const double rate = call_.decay[h] * Softplus(double{a[h]} + call_.dt_bias[h]);
      decays_[row * Heads() + h] = static_cast<float>(std::exp(-rate));
      betas_[row * Heads() + h] = static_cast<float>(1 / (1 + std::exp(-double{b[h]})));
    }
  }

  // Columns of a head's matrix, over the rows of a sequence.
  struct Task {
    int64_t sequence, head, first_column, last_column;
  };

  // Where there are many rows, as many as are computed together; where there are few, the matrix
  // itself is what takes time, and all of it is read in the order of memory.
  std::vector<Task> MakeTasks() const {
    constexpr int64_t kFewRows = 4;
    std::vector<Task> tasks;
    for (int64_t s = 0; s < std::ssize(sequences_); ++s) {
      const int64_t step = Sequence(s).num_rows <= kFewRows ? shape_.value_dim : kDeltaColumns;
      for (int64_t head = 0; head < Heads(); ++head) {
        for (int64_t column = 0; column < shape_.value_dim; column += step) {
          tasks.push_back({s, head, column, std::min(column + step, shape_.value_dim)});
        }
      }
    }
    return tasks;
  }

  void RunTask(const Task& task) {
    const bool is_whole = task.last_column - task.first_column > kDeltaColumns;
    if (is_whole) Prefetch(Sequence(task.sequence), task.head);
    for (int64_t column = task.first_column; column < task.last_column; column += kDeltaColumns) {
      RunTile(task.sequence, task.head, column);
    }
  }

  void Prefetch(const AttentionSequence& sequence, int64_t head) const {
    constexpr int64_t kLineFloats = 16;
    for (int64_t i = 0; i < shape_.key_dim; ++i) {
      const float* const row = StateRow(sequence, layout_.MatrixRow(call_.layer, head) + i);
      for (int64_t c = 0; c < shape_.value_dim; c += kLineFloats) __builtin_prefetch(row + c, 1);
    }
  }

  void RunTile(int64_t s, int64_t head, int64_t column) {
    const AttentionSequence& sequence = Sequence(s);
    std::array<float*, kMaxDeltaKeyDim> state;
    for (int64_t i = 0; i < shape_.key_dim; ++i) {
      state[static_cast<size_t>(i)] =
          StateRow(sequence, layout_.MatrixRow(call_.layer, head) + i) + column;
    }
    const int64_t row = sequence.first_row;
    const int64_t key_head = head / (Heads() / shape_.num_key_heads);
    kernels_.delta_tile({.state = state.data(),
                         .is_new = sequence.first_position == 0 && !sequence.repeats,
                         .repeats = sequence.repeats,
                         .num_columns = std::min(kDeltaColumns, shape_.value_dim - column),
                         .key_dim = shape_.key_dim,
                         .num_rows = sequence.num_rows,
                         .q = OfHead(keys_, key_head, row, shape_.key_dim),
                         .k = OfHead(keys_, shape_.num_key_heads + key_head, row, shape_.key_dim),
                         .v = OfHead(values_, head, row, shape_.value_dim) + column,
                         .decay = decays_ + row * Heads() + head,
                         .beta = betas_ + row * Heads() + head,
                         .gate_stride = Heads(),
                         .out = OfHead(results_, head, row, shape_.value_dim) + column,
                         .value_stride = shape_.value_dim});
  }

  void Finish(int64_t row) {
    const auto norm =
        out_.dtype == DType::kF32 ? kernels_.delta_norm_row_f32 : kernels_.delta_norm_row_bf16;
    const auto element = static_cast<int64_t>(SizeOf(out_.dtype));
    for (int64_t h = 0; h < Heads(); ++h) {
      const int64_t first = h * shape_.value_dim;
      norm({.x = OfHead(results_, h, row, shape_.value_dim),
            .z = in_.row(row) + shape_.num_channels() + first,
            .weight = call_.norm,
            .eps = call_.norm_eps,
            .size = shape_.value_dim,
            .out = out_.row(row) + first * element});
    }
  }

  CpuContext& context_;
  const CpuKernels& kernels_;
  const MatrixView<const float> in_;
  const DeltaCall& call_;
  const StateLayout& layout_;
  const DeltaShape& shape_;
  const std::span<const AttentionSequence> sequences_;
  const Matrix& out_;
  const int64_t history_size_;
  // In scratch memory. The rows of a head lie together: it takes them one after the other.
  float* histories_;
  float* keys_;             // [2 * num_key_heads, rows, key_dim]: q, then k
  float* values_;           // [num_value_heads, rows, value_dim]
  float* results_;          // [num_value_heads, rows, value_dim], not normed yet
  float *decays_, *betas_;  // [rows, num_value_heads]
};

}  // namespace

void GatedDelta(CpuContext& context, MatrixView<const float> in, const DeltaCall& call,
                const StateLayout& layout, std::span<const AttentionSequence> sequences,
                const Matrix& out) {
  const DeltaShape& shape = layout.shape;
  CHECK_EQ(in.cols, shape.num_columns());
  CHECK_EQ(out.cols, shape.value_size());
  CHECK_EQ(in.rows, out.rows);
  CHECK_EQ(shape.num_value_heads % shape.num_key_heads, 0);
  CHECK_LE(shape.key_dim, kMaxDeltaKeyDim);
  CHECK_LE(shape.conv_size, kMaxDeltaConvSize);
  CHECK_LT(call.layer, layout.num_layers);
  for (const AttentionSequence& sequence : sequences) {
    CHECK_EQ(std::ssize(sequence.state), layout.num_pages());
    if (sequence.repeats) CHECK_EQ(sequence.num_rows, 1);
  }
  Job(context, in, call, layout, sequences, out).Run();
}

}  // namespace aril::kernels
