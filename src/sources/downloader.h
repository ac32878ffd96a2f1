// A file over HTTP, against everything that goes wrong on the way: attempts are repeated, what has
// arrived is kept, redirects stay within what is allowed, and bytes and time are bounded.

#ifndef ARIL_SOURCES_DOWNLOADER_H_
#define ARIL_SOURCES_DOWNLOADER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/transfer_monitor.h"
#include "sources/http_transport.h"
#include "sources/source_policy.h"

namespace aril {

struct RemoteFile {
  std::string url;
  Origin origin;                         // of `url`
  std::vector<std::string> headers;      // sent to that origin only
  const AwsCredentials* sign = nullptr;  // likewise
  std::vector<Origin> redirect_origins;  // where it may be redirected to, besides its own
  bool may_be_redirected = true;         // not where the path says whose it is
  // What clients know it by, where the URL's host is the operator's: then errors do not show that,
  // and what shows it is logged. Empty: `url`.
  std::string shown = "";
  int64_t max_bytes = 0;
};

// Where a download goes. One that is begun anew starts over.
class DownloadOutput {
 public:
  virtual ~DownloadOutput() = default;
  virtual int64_t size_bytes() const = 0;
  virtual Status Restart() = 0;
  virtual Status Append(std::string_view bytes) = 0;
};

// The files of one source, whose bytes and time are bounded together. For one thread.
class Downloader {
 public:
  // Attempts in a row that bring nothing, until an error is final.
  static constexpr int kMaxAttempts = 5;
  // Between attempts: doubled from the first to the last of these, or what the server asks for, up
  // to the last.
  static constexpr Duration kFirstBackoff = std::chrono::milliseconds(250);
  static constexpr Duration kLastBackoff = std::chrono::seconds(8);
  static constexpr int kMaxRedirects = 5;

  // All of these must outlive it; the time of the policy runs from now on.
  Downloader(HttpTransport& transport, const Clock& clock, const SourcePolicy& policy,
             TransferMonitor& monitor);

  // NotFound if the server has no such file. Others: Unavailable when it gave up, InvalidArgument
  // for what no attempt would mend, kCancelled, and those of `output`.
  Status Download(const RemoteFile& file, DownloadOutput& output);
  // To a new file. ResourceExhausted if the disk is full.
  Status DownloadTo(const std::string& path, const RemoteFile& file);
  StatusOr<std::string> DownloadText(const RemoteFile& file);

 private:
  class Attempt;

  // What clients are told of `file`; logs what they are not.
  Status Tell(const RemoteFile& file, const Status& status) const;
  // One attempt, over all its redirects.
  Status TryOnce(const RemoteFile& file, DownloadOutput& output, std::string* etag,
                 Duration* retry_after);
  Duration TimeLeft() const { return end_ - clock_.Now(); }

  HttpTransport& transport_;
  const Clock& clock_;
  const SourcePolicy& policy_;
  TransferMonitor& monitor_;
  const TimePoint end_;
  int64_t done_bytes_ = 0;  // of the files before
};

}  // namespace aril

#endif  // ARIL_SOURCES_DOWNLOADER_H_
