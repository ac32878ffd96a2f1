#include "apps/synth_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/check.h"
#include "tensor/safetensors.h"

namespace aril {
namespace {

constexpr size_t kNumQuantiles = 65536;
// Tensors are drawn in pieces, which threads share; a multiple of the four weights of one draw.
constexpr int64_t kPieceElements = 64 << 10;
// Pieces collect here between writes; large enough that system calls and wake-ups do not count.
constexpr size_t kStagingBytes = 16 << 20;

// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// 2014): a bijection whose output bits all depend on all input bits.
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t Draw(uint64_t key, uint64_t index) { return Mix(key + (index + 1) * 0x9E3779B97F4A7C15u); }

// z_k for all k. Newton's method on Q(z) = erfc(z/√2)/2, which is convex for z > 0: from the
// previous quantile, on the left, it converges monotonically.
std::vector<double> NormalQuantiles() {
  std::vector<double> quantiles(kNumQuantiles);
  double z = 0;
  for (size_t k = kNumQuantiles / 2; k < kNumQuantiles; ++k) {
    const double upper_tail = (static_cast<double>(kNumQuantiles - k) - 0.5) / kNumQuantiles;
    for (int i = 0; i < 6; ++i) {
      const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
      z += (std::erfc(z / std::numbers::sqrt2) / 2 - upper_tail) / density;
    }
    quantiles[k] = z;
    quantiles[kNumQuantiles - 1 - k] = -z;
  }
  return quantiles;
}

template <typename T>
void Append(T value, std::vector<std::byte>* bytes) {
  const auto* data = reinterpret_cast<const std::byte*>(&value);
  bytes->insert(bytes->end(), data, data + sizeof(T));
}

void AppendEncoded(DType dtype, float value, std::vector<std::byte>* bytes) {
  switch (dtype) {
    case DType::kF32:
      return Append(value, bytes);
    case DType::kBF16:
      return Append(ToBF16(value), bytes);
    case DType::kF16:
      return Append(ToF16(value), bytes);
    default:
      CHECK_EQ(dtype, DType::kF32);
  }
}

// Elements [first, first + count) of a tensor; `first` is a multiple of 4.
template <typename Element>
void Fill(const std::byte* table_bytes, uint64_t key, int64_t first, int64_t count,
          std::byte* to_bytes) {
  const auto* table = reinterpret_cast<const Element*>(table_bytes);
  auto* to = reinterpret_cast<Element*>(to_bytes);
  for (int64_t i = 0; i < count; i += 4) {
    const uint64_t bits = Draw(key, static_cast<uint64_t>((first + i) / 4));
    const int64_t lanes = std::min<int64_t>(4, count - i);
    for (int64_t lane = 0; lane < lanes; ++lane) to[i + lane] = table[bits >> (16 * lane) & 0xFFFF];
  }
}

// A run of elements of one tensor and its place in the staging buffer.
struct Piece {
  const std::byte* table;
  uint64_t key;
  int64_t first;
  int64_t count;
  size_t offset;
};

// Collects pieces, draws them on all threads and writes them in order.
class Staging {
 public:
  Staging(DType dtype, SafetensorsWriter& writer, ThreadPool& pool, const OnBytesWritten& on_bytes)
      : dtype_(dtype), writer_(writer), pool_(pool), on_bytes_(on_bytes), buffer_(kStagingBytes) {}

  Status Add(Piece piece) {
    const size_t size = static_cast<size_t>(piece.count) * SizeOf(dtype_);
    if (used_bytes_ + size > buffer_.size()) RETURN_IF_ERROR(Flush());
    piece.offset = used_bytes_;
    used_bytes_ += size;
    pieces_.push_back(piece);
    return OkStatus();
  }

  Status Flush() {
    pool_.ParallelFor(std::ssize(pieces_), [&](int64_t i) {
      const Piece& piece = pieces_[static_cast<size_t>(i)];
      std::byte* to = buffer_.data() + piece.offset;
      if (SizeOf(dtype_) == 4) {
        Fill<uint32_t>(piece.table, piece.key, piece.first, piece.count, to);
      } else {
        Fill<uint16_t>(piece.table, piece.key, piece.first, piece.count, to);
      }
    });
    RETURN_IF_ERROR(writer_.Append(std::span(buffer_).first(used_bytes_)));
    if (on_bytes_) on_bytes_(used_bytes_);
    pieces_.clear();
    used_bytes_ = 0;
    return OkStatus();
  }

 private:
  const DType dtype_;
  SafetensorsWriter& writer_;
  ThreadPool& pool_;
  const OnBytesWritten& on_bytes_;
  std::vector<std::byte> buffer_;
  std::vector<Piece> pieces_;
  size_t used_bytes_ = 0;
};

}  // namespace

// FNV-1a of the name, mixed with the seed.
uint64_t SynthSeed(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return Mix(hash ^ Mix(seed));
}

SynthWeights::SynthWeights(DType dtype) : dtype_(dtype), quantiles_(NormalQuantiles()) {}

const SynthWeights::Table& SynthWeights::TableFor(double std) {
  Table& table = tables_[std];
  if (!table.empty()) return table;
  table.reserve(kNumQuantiles * SizeOf(dtype_));
  for (const double z : quantiles_) {
    AppendEncoded(dtype_, std == 0 ? 1.0f : static_cast<float>(z * std), &table);
  }
  return table;
}

Status SynthWeights::WriteFile(const std::string& path, std::span<const SynthTensor> tensors,
                               uint64_t seed, ThreadPool& pool,
                               const OnBytesWritten& on_bytes_written) {
  std::vector<SafetensorsWriter::Declaration> declarations;
  for (const SynthTensor& tensor : tensors) {
    declarations.push_back({tensor.name, dtype_, tensor.shape});
  }
  // transformers refuses files without this.
  ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(path, declarations, {{"format", "pt"}}));
  Staging staging(dtype_, writer, pool, on_bytes_written);
  for (const SynthTensor& tensor : tensors) {
    const uint64_t key = SynthSeed(seed, tensor.name);
    const std::byte* table = TableFor(tensor.std).data();
    for (int64_t first = 0; first < tensor.num_elements(); first += kPieceElements) {
      const int64_t count = std::min(kPieceElements, tensor.num_elements() - first);
      RETURN_IF_ERROR(staging.Add({table, key, first, count, 0}));
    }
  }
  RETURN_IF_ERROR(staging.Flush());
  return writer.Finish();
}

}  // namespace aril
