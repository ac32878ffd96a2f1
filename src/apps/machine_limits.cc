#include "apps/machine_limits.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "apps/bench_numbers.h"
#include "base/check.h"

namespace aril {
namespace {

// What is read between two looks at the clock.
constexpr size_t kStretchBytes = size_t{64} << 20;

// Memory that lies idle for longer may be taken away by the system, and comes back page by page:
// after minutes of prompts, a tenth of the bandwidth was found once.
constexpr Duration kMaxIdle = std::chrono::seconds(5);

}  // namespace

double MachineLimits::product_per_s(kernels::WeightFormat format) const {
  if (kernels::RoundsActivations(format) && int8_per_s > 0) return int8_per_s;
  return format != kernels::WeightFormat::kF32 && bf16_per_s > 0 ? bf16_per_s : f32_per_s;
}

Json MachineLimits::ToJson() const {
  return Json::Object{{"threads", threads},
                      {"read_bytes_per_s", read_bytes_per_s},
                      {"f32_per_s", f32_per_s},
                      {"bf16_per_s", bf16_per_s},
                      {"int8_per_s", int8_per_s}};
}

MachineProbe::MachineProbe(kernels::CpuContext& context, const Clock& clock, size_t memory_bytes)
    : context_(context), clock_(clock), memory_(memory_bytes) {
  CHECK(memory_bytes > 0 && memory_bytes % kStretchBytes == 0);
  // Every page its own: pages never written are all one page of zeros.
  context.threads().ParallelFor(
      static_cast<int64_t>(memory_bytes / kStretchBytes), [&](int64_t stretch) {
        std::memset(memory_.data() + static_cast<size_t>(stretch) * kStretchBytes, 1,
                    kStretchBytes);
      });
  last_read_ = clock_.Now();
}

double MachineProbe::ReadBytesPerSecond(Duration duration) {
  if (clock_.Now() - last_read_ > kMaxIdle) {
    for (size_t at = 0; at < memory_.size_bytes(); at += kStretchBytes) {
      kernels::ReadMemory(context_, std::span(memory_.data() + at, kStretchBytes));
    }
  }
  const TimePoint start = clock_.Now();
  double bytes = 0;
  for (size_t at = 0; clock_.Now() - start < duration || bytes == 0;
       at = (at + kStretchBytes) % memory_.size_bytes()) {
    kernels::ReadMemory(context_, std::span(memory_.data() + at, kStretchBytes));
    bytes += double{kStretchBytes};
  }
  last_read_ = clock_.Now();
  return bytes / ToSeconds(last_read_ - start);
}

double MachineProbe::OperationsPerSecond(kernels::Arithmetic arithmetic, Duration duration) {
  TimePoint start = clock_.Now();
  const TimePoint end = start + duration;
  double best = 0;
  while (start < end || best == 0) {
    const double operations = kernels::RunArithmetic(context_, arithmetic);
    if (operations == 0) return 0;
    const TimePoint now = clock_.Now();
    best = std::max(best, operations / ToSeconds(now - std::exchange(start, now)));
  }
  return best;
}

MachineLimits MachineProbe::Measure(Duration duration) {
  return {.threads = context_.threads().num_threads(),
          .read_bytes_per_s = ReadBytesPerSecond(duration),
          .f32_per_s = OperationsPerSecond(kernels::Arithmetic::kF32, duration),
          .bf16_per_s = OperationsPerSecond(kernels::Arithmetic::kBF16, duration),
          .int8_per_s = OperationsPerSecond(kernels::Arithmetic::kInt8, duration)};
}

void MachineProbe::RaisePeaks(Duration duration, MachineLimits* limits) {
  const auto raise = [&](double* peak, kernels::Arithmetic arithmetic) {
    *peak = std::max(*peak, OperationsPerSecond(arithmetic, duration));
  };
  raise(&limits->f32_per_s, kernels::Arithmetic::kF32);
  raise(&limits->bf16_per_s, kernels::Arithmetic::kBF16);
  raise(&limits->int8_per_s, kernels::Arithmetic::kInt8);
}

}  // namespace aril
