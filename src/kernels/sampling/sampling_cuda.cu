// One block chooses the token of one row. What ends the falling order of tokens, by top_k and
// top_p, is found digit by digit of the logits' bits, from the top: histograms of how many tokens,
// or of what weight, have each digit (radix selection; nothing is sorted).

#include "kernels/cuda/device.h"
#include "kernels/sampling/sampling_cuda.h"

namespace aril::kernels::ARIL_CUDA_TARGET {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarpSize;
constexpr float kInfinity = __builtin_inff();

// Digits of a key, from its upper end, have 11, 11 and 10 bits.
constexpr int kNumDigits = 3;
constexpr int kKeyBits = 32;
constexpr int kDigitBits = 11;
constexpr int kBins = 1 << kDigitBits;
constexpr int kBinsOfGroup = 32;
constexpr int kGroups = kBins / kBinsOfGroup;

// A device adds 32 bits to shared memory at once, and 64 bits in a loop while others do: so what a
// bin has is kept in parts of 11 bits, each of which has room for the sums of all tokens.
constexpr int kPartsOfBin = 4;
constexpr int kPartBits = 11;
static_assert(kMaxDeviceVocab <= 1 << (31 - kPartBits));

// For the draw, a row is cut into tiles, and a tile into parts.
constexpr int kTileTokens = 1024;
constexpr int kPartTokens = 32;
constexpr int kParts = kTileTokens / kPartTokens;
constexpr int kMaxTiles = kMaxDeviceVocab / kTileTokens;

// The best of some tokens, and whether all of them can be compared. One that is -inf cannot be
// chosen.
struct Best {
  float logit;
  int32_t token;    // -1: none
  int32_t invalid;  // not 0: a NaN or +inf was among them
};

// The tokens whose keys are larger than `key`, and of those with this one the first `ties`.
struct Cut {
  uint32_t key;
  uint64_t ties;
};

// What some tokens weigh that are before the cut's key, and how many have that key.
struct Share {
  uint64_t weight;
  uint64_t ties;
};

struct Shared {
  union {
    uint32_t bins[kPartsOfBin][kBins];
    uint64_t weights[kTileTokens];  // in the end, those of a tile's tokens
  };
  uint64_t groups[kGroups];
  Share tiles[kMaxTiles];
  Share parts[kParts];
  Best of_warps[kWarps];
  uint64_t sums_of_warps[kWarps];
  // Of what the search has fixed so far: the upper digits, and what lies above them.
  uint32_t digits;
  uint64_t above;
  // Of the tile that the token is in: what is left of the target, and of the ties.
  int32_t tile;
  uint64_t target;
  uint64_t ties;
};

ARIL_DEVICE Best Better(const Best& a, const Best& b) {
  const bool first =
      b.token < 0 ||
      (a.token >= 0 && (a.logit > b.logit || (a.logit == b.logit && a.token < b.token)));
  Best best = first ? a : b;
  best.invalid = a.invalid | b.invalid;
  return best;
}

ARIL_DEVICE Best OfWarp(Best best) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    const Best other = {ShuffleXor(best.logit, mask), ShuffleXor(best.token, mask),
                        ShuffleXor(best.invalid, mask)};
    best = Better(best, other);
  }
  return best;
}

// In all threads.
ARIL_DEVICE Best FindBest(const float* logits, int vocab, Shared& shared) {
  Best best = {-kInfinity, -1, 0};
  for (int i = ThreadIdx(); i < vocab; i += kThreads) {
    const float logit = logits[i];
    if (!(logit < kInfinity)) best.invalid = 1;  // NaN, too
    // Ids rise: an equal one later does not replace this.
    if (logit > best.logit) best = {logit, i, best.invalid};
  }
  best = OfWarp(best);
  if (ThreadIdx() % kWarpSize == 0) shared.of_warps[ThreadIdx() / kWarpSize] = best;
  SyncThreads();
  best = shared.of_warps[0];
  for (int w = 1; w < kWarps; ++w) best = Better(best, shared.of_warps[w]);
  return best;
}

// Rises with the logit; equal logits have one key, both zeros, too.
ARIL_DEVICE uint32_t KeyOf(float logit) {
  const uint32_t bits = BitCast<uint32_t>(logit + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
ARIL_DEVICE float LogitOf(uint32_t key) {
  return BitCast<float>((key >> 31) != 0 ? key & 0x7FFFFFFFu : ~key);
}

// As weights.h has it, operation by operation.
ARIL_DEVICE float ExpNonPositive(float x) {
  constexpr float kLimit = 87.0f;
  constexpr float kRounder = 12582912.0f;
  const float magnitude = x < 0 ? -x : x;
  if (!(magnitude < kLimit)) return 0;
  const float n = (magnitude * 1.44269504f + kRounder) - kRounder;
  const float r = (n * 0.693359375f - magnitude) + n * -2.12194440e-4f;
  float e = 1.0f / 5040;
  e = e * r + 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  return e * BitCast<float>((127 - static_cast<int32_t>(n)) << 23);
}

// A row's tokens and how they are weighed.
struct Row {
  const float* logits;
  int vocab;
  float largest;
  float temperature;
  float min_weight;

  ARIL_DEVICE uint64_t WeightOf(float logit) const {
    const float weight = ExpNonPositive((logit - largest) / temperature);
    return static_cast<uint64_t>(weight * 0x1p44f);
  }
  // Of what min_p leaves.
  ARIL_DEVICE uint64_t KeptWeightOf(float logit) const {
    const float weight = ExpNonPositive((logit - largest) / temperature);
    return weight >= min_weight ? static_cast<uint64_t>(weight * 0x1p44f) : 0;
  }
};

ARIL_DEVICE void AddToBin(Shared& shared, uint32_t bin, uint64_t value) {
#pragma unroll
  for (int p = 0; p < kPartsOfBin; ++p) {
    // The largest weight, 2^44, has a bit more in its last part.
    const uint64_t part = p + 1 < kPartsOfBin ? value & ((1u << kPartBits) - 1) : value;
    if (part != 0) AtomicAdd(&shared.bins[p][bin], static_cast<uint32_t>(part));
    value >>= kPartBits;
  }
}

ARIL_DEVICE uint64_t BinOf(const Shared& shared, int bin) {
  uint64_t sum = 0;
#pragma unroll
  for (int p = 0; p < kPartsOfBin; ++p) {
    sum += static_cast<uint64_t>(shared.bins[p][bin]) << (p * kPartBits);
  }
  return sum;
}

// The sum of all lanes' values, in all lanes.
ARIL_DEVICE uint64_t SumOfWarp(uint64_t value) {
#pragma unroll
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
    const uint32_t low = ShuffleXor(static_cast<uint32_t>(value), mask);
    const uint32_t high = ShuffleXor(static_cast<uint32_t>(value >> 32), mask);
    value += static_cast<uint64_t>(high) << 32 | low;
  }
  return value;
}

// Of all threads, in all of them.
ARIL_DEVICE uint64_t SumOfBlock(uint64_t value, Shared& shared) {
  value = SumOfWarp(value);
  if (ThreadIdx() % kWarpSize == 0) shared.sums_of_warps[ThreadIdx() / kWarpSize] = value;
  SyncThreads();
  uint64_t sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += shared.sums_of_warps[w];
  return sum;
}

// Thread 0: fixes the next digit, the one in which what lies above reaches the target.
ARIL_DEVICE void FixDigit(uint64_t target, Shared& shared) {
  uint64_t above = shared.above;
  int group = kGroups - 1;
  for (; group > 0 && above + shared.groups[group] < target; --group) above += shared.groups[group];
  int bin = (group + 1) * kBinsOfGroup - 1;
  for (; bin > group * kBinsOfGroup; --bin) {
    const uint64_t of_bin = BinOf(shared, bin);
    if (above + of_bin >= target) break;
    above += of_bin;
  }
  shared.above = above;
  shared.digits = static_cast<uint32_t>(bin);
}

// The key in falling order at which the sum of value(key) over the tokens reaches `target`, and in
// shared.above, after the next barrier, that of those above it. `ties` of a key that `value` leaves
// out count for it together.
template <typename Value>
ARIL_DEVICE uint32_t FindKey(const Row& row, uint64_t target, const Value& value, uint32_t tied_key,
                             uint64_t value_of_ties, Shared& shared) {
  uint64_t fixed = 0;  // the digits so far
  if (ThreadIdx() == 0) shared.above = 0;
  int shift = kKeyBits;
  for (int d = 0; d < kNumDigits; ++d) {
    const int bits = shift < kDigitBits ? shift : kDigitBits;
    shift -= bits;
    const auto is_in_question = [&](uint32_t key) {
      return static_cast<uint64_t>(key) >> (shift + bits) == fixed;
    };
    const auto bin_of = [&](uint32_t key) { return key >> shift & ((1u << bits) - 1); };
    for (int i = ThreadIdx(); i < kPartsOfBin * kBins; i += kThreads) (&shared.bins[0][0])[i] = 0;
    SyncThreads();
    for (int i = ThreadIdx(); i < row.vocab; i += kThreads) {
      const uint32_t key = KeyOf(row.logits[i]);
      if (!is_in_question(key)) continue;
      const uint64_t of_token = value(key);
      AddToBin(shared, bin_of(key), of_token);
    }
    if (ThreadIdx() == 0 && value_of_ties != 0 && is_in_question(tied_key)) {
      AddToBin(shared, bin_of(tied_key), value_of_ties);
    }
    SyncThreads();
    if (ThreadIdx() < kGroups) {
      uint64_t sum = 0;
      for (int i = 0; i < kBinsOfGroup; ++i) {
        sum += BinOf(shared, ThreadIdx() * kBinsOfGroup + i);
      }
      shared.groups[ThreadIdx()] = sum;
    }
    SyncThreads();
    if (ThreadIdx() == 0) FixDigit(target, shared);
    SyncThreads();
    fixed = fixed << bits | shared.digits;
  }
  return static_cast<uint32_t>(fixed);
}

ARIL_DEVICE Cut FindTopK(const Row& row, int32_t top_k, Shared& shared) {
  const auto target = static_cast<uint64_t>(top_k);
  const uint32_t key = FindKey(
      row, target, [](uint32_t) { return uint64_t{1}; }, 0, 0, shared);
  return {key, target - shared.above};
}

// The shortest beginning of what `within` leaves that has at least `top_p` of its weight.
ARIL_DEVICE Cut FindTopP(const Row& row, float top_p, const Cut& within, Shared& shared) {
  const uint64_t of_tie = row.WeightOf(LogitOf(within.key));
  // Nothing weighs what nobody has: without a cut there are no ties.
  const uint64_t of_ties = within.key == 0 ? 0 : within.ties * of_tie;
  const auto value = [&](uint32_t key) {
    return key > within.key ? row.WeightOf(LogitOf(key)) : 0;
  };
  uint64_t sum = 0;
  for (int i = ThreadIdx(); i < row.vocab; i += kThreads) sum += value(KeyOf(row.logits[i]));
  const uint64_t total = SumOfBlock(sum, shared) + of_ties;
  const auto wanted = static_cast<uint64_t>(static_cast<double>(total) * double{top_p});
  const uint64_t target = wanted > 0 ? wanted : 1;
  const uint32_t key = FindKey(row, target, value, within.key, of_ties, shared);
  // All tokens of one key weigh the same.
  const uint64_t weight = row.WeightOf(LogitOf(key));
  uint64_t ties = weight == 0 ? 1 : (target - shared.above + weight - 1) / weight;
  if (key == within.key && within.ties < ties) ties = within.ties;
  return {key, ties};
}

ARIL_DEVICE uint64_t LesserOf(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Thread 0: goes over shares, in the order of ids, to the one in which `target` lies, and takes
// from it, and from `ties`, what comes before.
ARIL_DEVICE int FindShare(const Share* shares, int count, uint64_t of_tie, uint64_t& target,
                          uint64_t& ties) {
  for (int i = 0;; ++i) {
    const uint64_t tied = LesserOf(shares[i].ties, ties);
    const uint64_t weight = shares[i].weight + tied * of_tie;
    if (target < weight || i + 1 == count) return i;
    target -= weight;
    ties -= tied;
  }
}

// Thread 0: the tile that the draw falls into.
ARIL_DEVICE void DrawTile(int tiles, uint64_t ties, uint64_t of_tie, double u, Shared& shared) {
  uint64_t total = 0, left = ties;
  for (int t = 0; t < tiles; ++t) {
    const uint64_t tied = LesserOf(shared.tiles[t].ties, left);
    total += shared.tiles[t].weight + tied * of_tie;
    left -= tied;
  }
  // u < 1 and the largest weighs something; what rounds up to the total is the last unit of it.
  shared.target = LesserOf(static_cast<uint64_t>(static_cast<double>(total) * u), total - 1);
  shared.ties = ties;
  shared.tile = FindShare(shared.tiles, tiles, of_tie, shared.target, shared.ties);
}

// Step 9 among what `cut` and min_p leave. In thread 0.
ARIL_DEVICE int32_t Draw(const Row& row, const Cut& cut, double u, Shared& shared) {
  const uint64_t of_tie = cut.key == 0 ? 0 : row.KeptWeightOf(LogitOf(cut.key));
  const int tiles = (row.vocab + kTileTokens - 1) / kTileTokens;
  for (int t = ThreadIdx() / kWarpSize; t < tiles; t += kWarps) {
    Share share = {0, 0};
    const int end = (t + 1) * kTileTokens < row.vocab ? (t + 1) * kTileTokens : row.vocab;
    for (int i = t * kTileTokens + ThreadIdx() % kWarpSize; i < end; i += kWarpSize) {
      const float logit = row.logits[i];
      const uint32_t key = KeyOf(logit);
      if (key > cut.key) share.weight += row.KeptWeightOf(logit);
      if (key == cut.key) ++share.ties;
    }
    share = {SumOfWarp(share.weight), SumOfWarp(share.ties)};
    if (ThreadIdx() % kWarpSize == 0) shared.tiles[t] = share;
  }
  SyncThreads();
  if (ThreadIdx() == 0) DrawTile(tiles, cut.ties, of_tie, u, shared);
  SyncThreads();
  constexpr uint64_t kTie = ~uint64_t{0};
  const int first = shared.tile * kTileTokens;
  for (int i = ThreadIdx(); i < kTileTokens; i += kThreads) {
    uint64_t weight = 0;
    if (first + i < row.vocab) {
      const float logit = row.logits[first + i];
      const uint32_t key = KeyOf(logit);
      if (key > cut.key) weight = row.KeptWeightOf(logit);
      if (key == cut.key) weight = kTie;
    }
    shared.weights[i] = weight;
  }
  SyncThreads();
  if (ThreadIdx() < kParts) {
    Share share = {0, 0};
    for (int i = 0; i < kPartTokens; ++i) {
      const uint64_t weight = shared.weights[ThreadIdx() * kPartTokens + i];
      if (weight == kTie) {
        ++share.ties;
      } else {
        share.weight += weight;
      }
    }
    shared.parts[ThreadIdx()] = share;
  }
  SyncThreads();
  if (ThreadIdx() != 0) return 0;
  uint64_t target = shared.target, ties = shared.ties;
  const int part = FindShare(shared.parts, kParts, of_tie, target, ties) * kPartTokens;
  int32_t token = 0;
  for (int i = part; i < part + kPartTokens; ++i) {
    const bool is_tie = shared.weights[i] == kTie;
    if (is_tie && ties == 0) continue;
    if (is_tie) --ties;
    const uint64_t weight = is_tie ? of_tie : shared.weights[i];
    token = first + i;
    if (target < weight) break;
    target -= weight;
  }
  return token;
}

ARIL_KERNEL(kThreads)
SampleKernel(ARIL_PARAMETER SampleArgs args) {
  FollowPreviousKernel();
  Shared& shared = *SharedMemory<Shared>();
  const float* logits = args.logits + BlockIdx() * args.stride;
  const SampleRow how = args.how[BlockIdx()];
  int32_t* const token = args.tokens + BlockIdx();
  const Best best = FindBest(logits, how.vocab, shared);
  if (best.invalid != 0 || best.token < 0 || how.temperature == 0) {
    if (ThreadIdx() != 0) return;
    *token = best.invalid != 0 ? kTokenOfNaN : best.token < 0 ? kTokenOfNone : best.token;
    return;
  }
  const Row row = {logits, how.vocab, best.logit, how.temperature,
                   how.min_p < 1 ? how.min_p : 1.0f};
  Cut cut = {0, 0};  // no number has this key
  if (how.top_k > 0 && how.top_k < how.vocab) cut = FindTopK(row, how.top_k, shared);
  if (how.top_p < 1) cut = FindTopP(row, how.top_p, cut, shared);
  const int32_t drawn = Draw(row, cut, how.u, shared);
  if (ThreadIdx() == 0) *token = drawn;
}

ARIL_KERNEL(kThreads)
TakeChosenKernel(ARIL_PARAMETER TakeChosenArgs args) {
  FollowPreviousKernel();
  const int row = BlockIdx() * kThreads + ThreadIdx();
  if (row >= args.rows) return;
  const int32_t token = args.tokens[row];
  if (token >= 0) return;
  const int32_t chosen = args.chosen[-1 - token];
  args.tokens[row] = chosen < 0 ? 0 : chosen;
}

}  // namespace

int Sample(const CudaContext& context, const SampleArgs& args) {
  if (args.rows == 0) return 0;
  return LaunchKernel(context, {args.rows, kThreads, sizeof(Shared)}, SampleKernel, args);
}

int TakeChosen(const CudaContext& context, const TakeChosenArgs& args) {
  if (args.rows == 0) return 0;
  return LaunchKernel(context, {(args.rows + kThreads - 1) / kThreads, kThreads, 0},
                      TakeChosenKernel, args);
}

}  // namespace aril::kernels::ARIL_CUDA_TARGET
