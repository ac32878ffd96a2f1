#include "sources/source_policy.h"

#include <algorithm>

#include "base/json.h"
#include "base/strings.h"

namespace aril {
namespace {

Status NotAllowed(const std::string& what, const std::string& flag) {
  return InvalidArgument(StrCat(what, "; the operator allows it with ", flag));
}

// Printable ASCII without a space goes into a header as it is.
bool CanBeSent(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7F'; });
}

}  // namespace

StatusOr<std::optional<AwsCredentials>> ReadAwsCredentials(
    const std::function<const char*(const char*)>& find) {
  const auto value = [&](const char* name) -> std::string {
    const char* text = find(name);
    return text == nullptr ? "" : text;
  };
  AwsCredentials credentials = {.access_key_id = value("AWS_ACCESS_KEY_ID"),
                                .secret_access_key = value("AWS_SECRET_ACCESS_KEY"),
                                .session_token = value("AWS_SESSION_TOKEN")};
  for (const char* name : {"AWS_DEFAULT_REGION", "AWS_REGION"}) {
    if (const std::string region = value(name); !region.empty()) credentials.region = region;
  }
  if (credentials.access_key_id.empty() != credentials.secret_access_key.empty()) {
    return InvalidArgument(
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together; set both, or none for "
        "buckets that everybody may read");
  }
  for (const auto& [name, text] : {std::pair{"AWS_ACCESS_KEY_ID", &credentials.access_key_id},
                                   {"AWS_SECRET_ACCESS_KEY", &credentials.secret_access_key},
                                   {"AWS_SESSION_TOKEN", &credentials.session_token},
                                   {"AWS_REGION", &credentials.region}}) {
    // A colon ends the key id, and parts of what is signed, in what libcurl is told.
    const bool has_colon = text != &credentials.secret_access_key &&
                           text != &credentials.session_token &&
                           text->find(':') != std::string::npos;
    if (!CanBeSent(*text) || has_colon) {
      return InvalidArgument(StrCat(name, " holds characters that it cannot have"));
    }
  }
  if (credentials.access_key_id.empty()) return std::optional<AwsCredentials>();
  return std::optional(std::move(credentials));
}

Status SourcePolicy::Check(const SourceUrl& url) const {
  switch (url.kind) {
    case SourceUrl::Kind::kHttps:
      if (std::ranges::find(https_origins, url.origin) != https_origins.end()) return OkStatus();
      return NotAllowed(StrCat("nothing is fetched from ", url.origin.Text(), " here"),
                        "--adapter-origin");
    case SourceUrl::Kind::kS3:
      if (!s3.has_value()) return NotAllowed("s3:// is not set up here", "--s3-endpoint");
      if (std::ranges::find(s3->buckets, url.bucket) != s3->buckets.end()) return OkStatus();
      return NotAllowed(
          StrCat("nothing is fetched from the bucket ", JsonQuote(url.bucket), " here"),
          "--s3-bucket");
    case SourceUrl::Kind::kHub:
      break;
  }
  if (hub.has_value()) return OkStatus();
  return NotAllowed("hf:// is not set up here", "--hub-endpoint");
}

}  // namespace aril
