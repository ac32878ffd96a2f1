// The flags of `aril serve` that say where adapters may be fetched from.

#ifndef ARIL_APPS_SOURCE_FLAGS_H_
#define ARIL_APPS_SOURCE_FLAGS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/clock.h"
#include "base/status.h"
#include "sources/source_policy.h"

namespace aril {

struct SourceFlags {
  std::vector<std::string> adapter_origins;
  std::string s3_endpoint;
  std::vector<std::string> s3_buckets;
  std::string hub_endpoint;
  std::vector<std::string> hub_redirect_origins;
  bool allow_private = false;
  std::optional<int64_t> max_bytes;
  Duration timeout = std::chrono::minutes(10);
};

// In a group of their own.
void AddSourceFlags(CLI::App& app, SourceFlags& flags);

// What they say, with credentials from the environment, as `find_variable` gives it: those of AWS,
// HF_TOKEN, and SSL_CERT_FILE. InvalidArgument names the flag or variable that is wrong.
StatusOr<SourcePolicy> MakeSourcePolicy(
    const SourceFlags& flags, const std::function<const char*(const char*)>& find_variable);

}  // namespace aril

#endif  // ARIL_APPS_SOURCE_FLAGS_H_
