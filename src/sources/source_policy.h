// What the operator allows to be fetched, and how much of it.

#ifndef ARIL_SOURCES_SOURCE_POLICY_H_
#define ARIL_SOURCES_SOURCE_POLICY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "sources/source_url.h"

namespace aril {

// What requests to an S3-compatible store are signed with (AWS Signature Version 4).
struct AwsCredentials {
  std::string access_key_id;
  std::string secret_access_key;
  std::string session_token;  // empty: none
  std::string region = "us-east-1";
};

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and AWS_REGION (or
// AWS_DEFAULT_REGION), as `find` gives them; nullopt without a key, for buckets that everybody may
// read. InvalidArgument if one of the first two is missing, or one cannot be sent.
StatusOr<std::optional<AwsCredentials>> ReadAwsCredentials(
    const std::function<const char*(const char*)>& find);

struct S3Store {
  Origin endpoint;
  std::vector<std::string> buckets;  // that clients may name: the key may open more
  std::optional<AwsCredentials> credentials;
};

struct Hub {
  Origin endpoint;
  std::string token;                     // empty: none
  std::vector<Origin> redirect_origins;  // where it may keep its files, besides itself
};

struct SourcePolicy {
  std::vector<Origin> https_origins;
  std::optional<S3Store> s3;
  std::optional<Hub> hub;
  // Addresses of this machine and network may be contacted, where an origin leads to them.
  bool allow_private = false;
  int64_t max_bytes = int64_t{4} << 30;                 // of all files of a source
  Duration timeout = std::chrono::minutes(10);          // for all of a source, retries included
  Duration connect_timeout = std::chrono::seconds(10);  // of one attempt, TLS included
  Duration stall_timeout = std::chrono::seconds(30);    // without a byte, until another attempt
  std::string ca_file;  // PEM, in place of the system's authorities; empty: those

  bool allows_any() const { return !https_origins.empty() || s3.has_value() || hub.has_value(); }
  // InvalidArgument, naming the flag, unless `url` may be fetched.
  Status Check(const SourceUrl& url) const;
};

}  // namespace aril

#endif  // ARIL_SOURCES_SOURCE_POLICY_H_
