#include "apps/source_flags.h"

#include <algorithm>
#include <utility>

#include "apps/flags.h"
#include "base/strings.h"

namespace aril {
namespace {

StatusOr<Origin> ReadOrigin(const char* flag, const std::string& text, bool allow_http) {
  auto origin = ParseOrigin(text, allow_http);
  if (!origin.ok()) return Annotate(origin.status(), flag);
  return origin;
}

StatusOr<std::vector<Origin>> ReadOrigins(const char* flag, const std::vector<std::string>& texts) {
  std::vector<Origin> origins;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(Origin origin, ReadOrigin(flag, text, /*allow_http=*/false));
    origins.push_back(std::move(origin));
  }
  return origins;
}

StatusOr<std::optional<S3Store>> ReadS3(
    const SourceFlags& flags, const std::function<const char*(const char*)>& find_variable) {
  if (flags.s3_endpoint.empty() != flags.s3_buckets.empty()) {
    return InvalidArgument(
        "--s3-endpoint and --s3-bucket belong together: where the store is, and which of its "
        "buckets clients may name");
  }
  if (flags.s3_endpoint.empty()) return std::optional<S3Store>();
  S3Store s3;
  ASSIGN_OR_RETURN(s3.endpoint,
                   ReadOrigin("--s3-endpoint", flags.s3_endpoint, /*allow_http=*/true));
  for (const std::string& bucket : flags.s3_buckets) {
    const auto url = ParseSourceUrl("s3://" + bucket);
    if (!url.ok() || url->bucket != bucket) {
      return InvalidArgument(StrCat("--s3-bucket ", bucket, " is no name of a bucket"));
    }
  }
  s3.buckets = flags.s3_buckets;
  ASSIGN_OR_RETURN(s3.credentials, ReadAwsCredentials(find_variable));
  return std::optional(std::move(s3));
}

StatusOr<std::optional<Hub>> ReadHub(const SourceFlags& flags,
                                     const std::function<const char*(const char*)>& find_variable) {
  if (flags.hub_endpoint.empty()) {
    if (flags.hub_redirect_origins.empty()) return std::optional<Hub>();
    return InvalidArgument("--hub-redirect-origin needs --hub-endpoint");
  }
  Hub hub;
  ASSIGN_OR_RETURN(hub.endpoint,
                   ReadOrigin("--hub-endpoint", flags.hub_endpoint, /*allow_http=*/true));
  ASSIGN_OR_RETURN(hub.redirect_origins,
                   ReadOrigins("--hub-redirect-origin", flags.hub_redirect_origins));
  if (const char* token = find_variable("HF_TOKEN")) hub.token = token;
  const auto is_visible = [](char c) { return c > ' ' && c < '\x7F'; };
  if (!std::ranges::all_of(hub.token, is_visible)) {
    return InvalidArgument("HF_TOKEN holds characters that it cannot have");
  }
  return std::optional(std::move(hub));
}

}  // namespace

void AddSourceFlags(CLI::App& app, SourceFlags& flags) {
  app.option_defaults()->group("Sources of adapters (with --state-dir)");
  AddFlag(app, "--adapter-origin", flags.adapter_origins,
          "Servers that clients may have adapters fetched from, as https://HOST[:PORT] [none]")
      ->type_name("ORIGIN");
  AddFlag(app, "--s3-endpoint", flags.s3_endpoint,
          "S3-compatible store for s3:// sources; credentials and region from AWS_ACCESS_KEY_ID, "
          "AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION [none]")
      ->type_name("URL");
  AddFlag(app, "--s3-bucket", flags.s3_buckets, "Buckets that clients may name [none]")
      ->type_name("NAME");
  AddFlag(app, "--hub-endpoint", flags.hub_endpoint,
          "Hub for hf:// sources, for example https://huggingface.co; token from HF_TOKEN [none]")
      ->type_name("URL");
  AddFlag(app, "--hub-redirect-origin", flags.hub_redirect_origins,
          "Other servers that the hub may keep its files on [none]")
      ->type_name("ORIGIN");
  AddSizeFlag(app, "--source-max-bytes", flags.max_bytes,
              "Most bytes of one adapter that is fetched or uploaded")
      ->default_str("4GiB");
  AddDurationFlag(app, "--source-timeout", flags.timeout, "10min",
                  "How long fetching one adapter may take, with all attempts");
  AddSwitch(app, "--allow-private-sources", flags.allow_private,
            "Let sources lead to addresses of this machine and network");
}

StatusOr<SourcePolicy> MakeSourcePolicy(
    const SourceFlags& flags, const std::function<const char*(const char*)>& find_variable) {
  SourcePolicy policy;
  ASSIGN_OR_RETURN(policy.https_origins, ReadOrigins("--adapter-origin", flags.adapter_origins));
  ASSIGN_OR_RETURN(policy.s3, ReadS3(flags, find_variable));
  ASSIGN_OR_RETURN(policy.hub, ReadHub(flags, find_variable));
  policy.allow_private = flags.allow_private;
  if (flags.max_bytes == 0) {
    return InvalidArgument("--source-max-bytes is 0, which no adapter fits; give for example 4GiB");
  }
  policy.max_bytes = flags.max_bytes.value_or(policy.max_bytes);
  policy.timeout = flags.timeout;
  if (const char* file = find_variable("SSL_CERT_FILE")) policy.ca_file = file;
  return policy;
}

}  // namespace aril
