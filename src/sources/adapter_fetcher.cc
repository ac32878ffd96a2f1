#include "sources/adapter_fetcher.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "base/json.h"
#include "base/strings.h"
#include "sources/downloader.h"

namespace aril {
namespace {

// A hub's description of a repository, which lists all its files.
constexpr int64_t kMaxHubAnswerBytes = 8 << 20;
constexpr size_t kCommitDigits = 40;  // SHA-1; 64 where git has SHA-256
constexpr size_t kLongCommitDigits = 64;

bool IsCommit(const std::string& text) {
  return (text.size() == kCommitDigits || text.size() == kLongCommitDigits) &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Where a source's files lie: each one's URL is that of `folder` with its name appended.
struct Folder {
  RemoteFile folder;
  bool is_listed = false;  // `names` are all files that there are
  std::set<std::string> names = {};
};

StatusOr<Folder> ReadHubAnswer(const std::string& text, RemoteFile folder, const std::string& base,
                               const SourceUrl& url) {
  auto json = Json::Parse(text, {.max_bytes = kMaxHubAnswerBytes});
  if (!json.ok()) return Annotate(json.status(), StrCat("the hub's answer about ", url.repo));
  const Json* sha = json->Find("sha");
  const Json* siblings = json->Find("siblings");
  const bool has_commit =
      sha != nullptr && sha->AsString() != nullptr && IsCommit(*sha->AsString());
  if (!has_commit || siblings == nullptr || siblings->AsArray() == nullptr) {
    return InvalidArgument(
        StrCat("the hub's answer about ", url.repo, " lacks `sha` or `siblings`"));
  }
  folder.url = StrCat(base, "/", url.repo, "/resolve/", *sha->AsString());
  Folder result = {.folder = std::move(folder), .is_listed = true};
  for (const Json& sibling : *siblings->AsArray()) {
    const Json* name = sibling.Find("rfilename");
    if (name != nullptr && name->AsString() != nullptr) result.names.insert(*name->AsString());
  }
  return result;
}

// The API of Hugging Face's hub: /api/models/REPO/revision/REVISION, /REPO/resolve/COMMIT/FILE.
StatusOr<Folder> FindInHub(const SourceUrl& url, const Hub& hub, Downloader& downloader) {
  const std::string base = hub.endpoint.Text();
  RemoteFile file = {.url = StrCat(base, "/api/models/", url.repo, "/revision/", url.revision),
                     .origin = hub.endpoint,
                     .headers = hub.token.empty()
                                    ? std::vector<std::string>()
                                    : std::vector{"Authorization: Bearer " + hub.token},
                     .redirect_origins = hub.redirect_origins,
                     .shown = StrCat("hf://", url.repo, "@", url.revision),
                     .max_bytes = kMaxHubAnswerBytes};
  ASSIGN_OR_RETURN(const std::string text, downloader.DownloadText(file));
  return ReadHubAnswer(text, std::move(file), base, url);
}

StatusOr<Folder> Find(const SourceUrl& url, const SourcePolicy& policy, Downloader& downloader) {
  switch (url.kind) {
    case SourceUrl::Kind::kHttps:
      return Folder{.folder = {.url = url.origin.Text() + url.path, .origin = url.origin}};
    case SourceUrl::Kind::kS3:
      return Folder{.folder = {.url = StrCat(policy.s3->endpoint.Text(), "/", url.bucket, url.path),
                               .origin = policy.s3->endpoint,
                               .sign = policy.s3->credentials ? &*policy.s3->credentials : nullptr,
                               .may_be_redirected = false,
                               .shown = StrCat("s3://", url.bucket, url.path)}};
    case SourceUrl::Kind::kHub:
      break;
  }
  return FindInHub(url, *policy.hub, downloader);
}

Status MakeParent(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  return error ? ResourceExhausted(StrCat(path, ": ", error.message())) : OkStatus();
}

Status FetchOne(const Folder& folder, const WantedFile& wanted, const std::string& dir,
                Downloader& downloader) {
  if (folder.is_listed && !folder.names.contains(wanted.name)) {
    return NotFound("the hub lists no such file");
  }
  RemoteFile file = folder.folder;
  file.url += "/" + wanted.name;
  if (!file.shown.empty()) file.shown += "/" + wanted.name;
  file.max_bytes = wanted.max_bytes;
  const std::string path = StrCat(dir, "/", wanted.name);
  RETURN_IF_ERROR(MakeParent(path));
  return downloader.DownloadTo(path, file);
}

}  // namespace

Status AdapterFetcher::Check(const std::string& source) const {
  ASSIGN_OR_RETURN(const SourceUrl url, ParseSourceUrl(source));
  return policy_.Check(url);
}

Status AdapterFetcher::Fetch(const std::string& source, std::span<const WantedFile> files,
                             const std::string& dir, TransferMonitor& monitor) const {
  ASSIGN_OR_RETURN(const SourceUrl url, ParseSourceUrl(source));
  RETURN_IF_ERROR(policy_.Check(url));
  const std::unique_ptr<HttpTransport> transport = make_transport_(policy_);
  Downloader downloader(*transport, clock_, policy_, monitor);
  ASSIGN_OR_RETURN(const Folder folder, Find(url, policy_, downloader));
  for (const WantedFile& wanted : files) {
    if (wanted.is_wanted != nullptr && !wanted.is_wanted(dir)) continue;
    const Status status = FetchOne(folder, wanted, dir, downloader);
    const bool is_missing = status.code() == StatusCode::kNotFound;
    if (is_missing && !wanted.required) continue;
    if (is_missing) {
      return NotFound(StrCat(source, " has no ", wanted.name,
                             ", which an adapter must have: ", Message(status)));
    }
    RETURN_IF_ERROR(status);
  }
  return OkStatus();
}

}  // namespace aril
