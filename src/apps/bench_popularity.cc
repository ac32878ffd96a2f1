#include "apps/bench_popularity.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

#include "apps/bench_numbers.h"
#include "apps/bench_random.h"
#include "base/strings.h"

namespace aril {
namespace {

constexpr double kSkew = 1.5;

constexpr double kMinAlpha = 0.01;
constexpr double kMaxAlpha = 100;
constexpr std::string_view kPowerPrefix = "power:";

constexpr std::pair<PopularityKind, const char*> kNames[] = {
    {PopularityKind::kBase, "base"},
    {PopularityKind::kIdentical, "identical"},
    {PopularityKind::kUniform, "uniform"},
    {PopularityKind::kSkewed, "skewed"},
    {PopularityKind::kDistinct, "distinct"}};

std::vector<int64_t> UniformShares(int64_t n) {
  const auto num_adapters = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(n))));
  std::vector<int64_t> shares(static_cast<size_t>(num_adapters), n / num_adapters);
  for (int64_t i = 0; i < n % num_adapters; ++i) ++shares[static_cast<size_t>(i)];
  return shares;
}

std::vector<int64_t> SkewedShares(int64_t n) {
  std::vector<int64_t> shares;
  int64_t total = 0;
  for (double share = 1; total < n; share *= kSkew) {
    shares.push_back(std::min(static_cast<int64_t>(share), n - total));
    total += shares.back();
  }
  // Cut to what was left, the last may not be the largest.
  std::sort(shares.begin(), shares.end(), std::greater<>());
  return shares;
}

// The generator and the shuffle are spelled out, so that a seed means the same everywhere.
void Shuffle(std::mt19937_64& random, std::vector<int64_t>* items) {
  for (size_t i = items->size(); i > 1; --i) std::swap((*items)[i - 1], (*items)[random() % i]);
}

std::vector<int64_t> DrawByPower(double alpha, int64_t num_requests, int64_t num_adapters,
                                 uint64_t seed) {
  BenchRandom random(seed, RandomStream::kAdapters);
  std::vector<int64_t> adapters(static_cast<size_t>(num_requests));
  for (int64_t& adapter : adapters) {
    const double x = std::pow(random.Uniform(), 1 / alpha);
    // For a large α, x rounds to 1.
    adapter =
        std::min(static_cast<int64_t>(x * static_cast<double>(num_adapters)), num_adapters - 1);
  }
  return adapters;
}

std::vector<int64_t> DrawByShares(const std::vector<int64_t>& shares, int64_t num_requests,
                                  uint64_t seed) {
  std::vector<int64_t> block;
  for (size_t i = 0; i < shares.size(); ++i) {
    block.insert(block.end(), static_cast<size_t>(shares[i]), static_cast<int64_t>(i));
  }
  std::vector<int64_t> adapters(static_cast<size_t>(num_requests));
  std::mt19937_64 random(seed);
  for (size_t i = 0; i < adapters.size(); ++i) {
    if (i % block.size() == 0) Shuffle(random, &block);
    adapters[i] = block[i % block.size()];
  }
  return adapters;
}

std::vector<int64_t> GoRound(int64_t num_requests, int64_t num_adapters) {
  std::vector<int64_t> adapters(static_cast<size_t>(num_requests));
  for (size_t i = 0; i < adapters.size(); ++i) adapters[i] = static_cast<int64_t>(i) % num_adapters;
  return adapters;
}

}  // namespace

StatusOr<Popularity> ParsePopularity(const std::string& name) {
  for (const auto& [kind, known] : kNames) {
    if (name == known) return Popularity{.kind = kind};
  }
  Popularity power = {.kind = PopularityKind::kPower};
  if (name.compare(0, kPowerPrefix.size(), kPowerPrefix) == 0 &&
      ParseNumber(std::string_view(name).substr(kPowerPrefix.size()), &power.alpha) &&
      Validate(power).ok()) {
    return power;
  }
  return InvalidArgument(StrCat("`", name,
                                "`: expected base, identical, uniform, skewed, distinct or "
                                "power:ALPHA with an alpha from ",
                                kMinAlpha, " to ", kMaxAlpha));
}

std::string Name(const Popularity& popularity) {
  if (popularity.kind == PopularityKind::kPower) return StrCat(kPowerPrefix, popularity.alpha);
  return kNames[static_cast<size_t>(popularity.kind)].second;
}

Status Validate(const Popularity& popularity) {
  if (popularity.alpha >= kMinAlpha && popularity.alpha <= kMaxAlpha) return OkStatus();
  return InvalidArgument(StrCat("alpha can be ", kMinAlpha, " to ", kMaxAlpha));
}

std::vector<int64_t> AdapterShares(const Popularity& popularity, int64_t num_in_flight) {
  switch (popularity.kind) {
    case PopularityKind::kBase:
    case PopularityKind::kPower:
      return {};
    case PopularityKind::kIdentical:
      return {num_in_flight};
    case PopularityKind::kUniform:
      return UniformShares(num_in_flight);
    case PopularityKind::kSkewed:
      return SkewedShares(num_in_flight);
    case PopularityKind::kDistinct:
      break;
  }
  return std::vector<int64_t>(static_cast<size_t>(num_in_flight), 1);
}

StatusOr<std::vector<int64_t>> AssignAdapters(const Popularity& popularity, int64_t num_requests,
                                              int64_t num_in_flight, int64_t num_adapters,
                                              uint64_t seed) {
  const std::vector<int64_t> shares = AdapterShares(popularity, num_in_flight);
  const bool is_power = popularity.kind == PopularityKind::kPower;
  const auto needed = is_power ? 1 : static_cast<int64_t>(shares.size());
  if (num_adapters < needed) {
    return InvalidArgument(
        StrCat(Name(popularity), " with ", num_in_flight, " requests in flight needs ", needed,
               " adapters, and the server has ", num_adapters,
               "; make more with `aril synth adapters`, or lower --concurrency"));
  }
  if (is_power) return DrawByPower(popularity.alpha, num_requests, num_adapters, seed);
  if (popularity.kind == PopularityKind::kBase) {
    return std::vector<int64_t>(static_cast<size_t>(num_requests), -1);
  }
  if (popularity.kind == PopularityKind::kDistinct) return GoRound(num_requests, num_adapters);
  return DrawByShares(shares, num_requests, seed);
}

}  // namespace aril
