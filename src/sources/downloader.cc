#include "sources/downloader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/log.h"
#include "base/strings.h"

namespace aril {
namespace {

// What a file is called in messages: queries may hold signatures, so only what we made ourselves.
std::string Where(const RemoteFile& file, const std::string& what) {
  return StrCat(file.shown.empty() ? file.url : file.shown, ": ", what);
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Where "bytes 5-9/10" begins (RFC 9110, section 14.4).
std::optional<int64_t> BeginOfRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = text.find('-');
  if (!text.starts_with(kUnit) || dash == std::string_view::npos) return std::nullopt;
  return ParseInt(text.substr(kUnit.size(), dash - kUnit.size()));
}

// One that says the same of the same bytes only (RFC 9110, section 8.8.3).
bool IsStrong(const std::string& etag) {
  return etag.size() >= 2 && etag.front() == '"' && etag.back() == '"';
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

bool MayPass(int status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504;
}

Status ErrorOf(int status) {
  const std::string message = StrCat("the server answers ", status);
  if (MayPass(status)) return Unavailable(message);
  if (status == 404 || status == 410) return NotFound(message);
  if (status == 401 || status == 403) {
    return InvalidArgument(message +
                           ": it wants other credentials, or has no such file and does not say so "
                           "(S3, unless the key may list the bucket)");
  }
  return InvalidArgument(message);
}

Status Cancelled() { return MakeStatus(StatusCode::kCancelled, "cancelled"); }

class TextOutput final : public DownloadOutput {
 public:
  int64_t size_bytes() const override { return static_cast<int64_t>(text_.size()); }
  Status Restart() override {
    text_.clear();
    return OkStatus();
  }
  Status Append(std::string_view bytes) override {
    text_ += bytes;
    return OkStatus();
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

class FileOutput final : public DownloadOutput {
 public:
  explicit FileOutput(std::string path)
      : path_(std::move(path)),
        fd_(open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {}
  FileOutput(const FileOutput&) = delete;
  FileOutput& operator=(const FileOutput&) = delete;
  ~FileOutput() override {
    if (fd_ >= 0) close(fd_);
  }

  Status CheckOpen() const { return fd_ >= 0 ? OkStatus() : Errno(); }
  int64_t size_bytes() const override { return size_bytes_; }
  Status Restart() override {
    size_bytes_ = 0;
    return ftruncate(fd_, 0) == 0 && lseek(fd_, 0, SEEK_SET) == 0 ? OkStatus() : Errno();
  }
  Status Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Errno();
      bytes.remove_prefix(static_cast<size_t>(n));
      size_bytes_ += n;
    }
    return OkStatus();
  }

 private:
  // Of what is the store's own: nothing that a client could mend, and no reason to fetch again.
  // The folder is no business of clients.
  Status Errno() const {
    const std::string reason = std::strerror(errno);
    return ResourceExhausted(
        StrCat("cannot write ", path_.substr(path_.rfind('/') + 1), " here: ", reason));
  }

  const std::string path_;
  const int fd_;
  int64_t size_bytes_ = 0;
};

}  // namespace

// Takes one answer into the output.
class Downloader::Attempt final : public HttpReplySink {
 public:
  struct Bounds {
    int64_t max_bytes = 0;
    int64_t done_bytes = 0;  // of other files, for the monitor
  };
  Attempt(DownloadOutput& output, Bounds bounds, std::string* etag, TransferMonitor& monitor)
      : output_(output), bounds_(bounds), etag_(etag), monitor_(monitor) {}

  Status OnHead(const HttpReplyHead& head) override;
  Status OnBody(std::string_view bytes) override;

  // Asks for what is missing, if the answer is to the same bytes.
  std::vector<std::string> RangeHeaders();
  // Whether an error was said here, of the answer, rather than by the transport, of the host.
  bool has_refused() const { return has_refused_; }
  // Where the answer leads instead of being one; empty: nowhere.
  const std::string& location() const { return location_; }
  Duration retry_after() const { return retry_after_; }

 private:
  Status TakeHead(const HttpReplyHead& head);
  Status TakeBody(std::string_view bytes);
  Status Begin(const HttpReplyHead& head);
  Status Continue(const HttpReplyHead& head);
  Status CheckSize(int64_t size_bytes) const;

  DownloadOutput& output_;
  const Bounds bounds_;
  std::string* const etag_;
  TransferMonitor& monitor_;
  bool asked_for_range_ = false;
  bool has_refused_ = false;
  std::string location_;
  Duration retry_after_ = {};
  int64_t total_bytes_ = 0;
};

std::vector<std::string> Downloader::Attempt::RangeHeaders() {
  asked_for_range_ = output_.size_bytes() > 0 && IsStrong(*etag_);
  if (!asked_for_range_) return {};
  return {StrCat("Range: bytes=", output_.size_bytes(), "-"), StrCat("If-Range: ", *etag_)};
}

Status Downloader::Attempt::OnHead(const HttpReplyHead& head) {
  Status status = TakeHead(head);
  has_refused_ = !status.ok();
  return status;
}

Status Downloader::Attempt::OnBody(std::string_view bytes) {
  Status status = TakeBody(bytes);
  has_refused_ = !status.ok();
  return status;
}

Status Downloader::Attempt::TakeHead(const HttpReplyHead& head) {
  if (IsRedirect(head.status) && !head.location.empty()) {
    location_ = head.location;
    return Cancelled();
  }
  if (const auto seconds = ParseInt(head.retry_after)) {
    retry_after_ = std::chrono::seconds(std::min<int64_t>(*seconds, 3600));
  }
  const bool has_body = head.status == 200 || (head.status == 206 && asked_for_range_);
  if (has_body && !head.content_encoding.empty() && head.content_encoding != "identity") {
    return InvalidArgument(StrCat("the server sends it encoded (Content-Encoding: ",
                                  head.content_encoding, "), which nobody asked for"));
  }
  if (head.status == 200) return Begin(head);
  if (head.status == 206 && asked_for_range_) return Continue(head);
  if (head.status == 416 && asked_for_range_) {
    etag_->clear();
    return Unavailable("the server does not go on where it broke off");
  }
  return ErrorOf(head.status);
}

Status Downloader::Attempt::Begin(const HttpReplyHead& head) {
  *etag_ = head.etag;
  total_bytes_ = head.content_length.value_or(0);
  RETURN_IF_ERROR(CheckSize(total_bytes_));
  return output_.Restart();
}

Status Downloader::Attempt::Continue(const HttpReplyHead& head) {
  if (BeginOfRange(head.content_range) != output_.size_bytes()) {
    etag_->clear();
    return Unavailable("the server goes on elsewhere than where it broke off");
  }
  const int64_t rest_bytes = head.content_length.value_or(0);
  RETURN_IF_ERROR(CheckSize(rest_bytes));
  RETURN_IF_ERROR(CheckSize(rest_bytes + output_.size_bytes()));
  total_bytes_ = rest_bytes + output_.size_bytes();
  return OkStatus();
}

Status Downloader::Attempt::CheckSize(int64_t size_bytes) const {
  if (size_bytes <= bounds_.max_bytes) return OkStatus();
  return InvalidArgument(StrCat("larger than the ", bounds_.max_bytes,
                                " bytes that are left for it, of those allowed for such a file or, "
                                "with --source-max-bytes, for a source"));
}

Status Downloader::Attempt::TakeBody(std::string_view bytes) {
  RETURN_IF_ERROR(CheckSize(output_.size_bytes() + static_cast<int64_t>(bytes.size())));
  RETURN_IF_ERROR(output_.Append(bytes));
  monitor_.OnProgress(bounds_.done_bytes + output_.size_bytes(),
                      bounds_.done_bytes + std::max(total_bytes_, output_.size_bytes()));
  return OkStatus();
}

Downloader::Downloader(HttpTransport& transport, const Clock& clock, const SourcePolicy& policy,
                       TransferMonitor& monitor)
    : transport_(transport),
      clock_(clock),
      policy_(policy),
      monitor_(monitor),
      end_(clock.Now() + policy.timeout) {}

Status Downloader::Download(const RemoteFile& file, DownloadOutput& output) {
  std::string etag;
  Duration backoff = kFirstBackoff;
  for (int attempt = 1;; ++attempt) {
    const int64_t before_bytes = output.size_bytes();
    Duration retry_after = {};
    const Status status = TryOnce(file, output, &etag, &retry_after);
    if (status.ok()) {
      done_bytes_ += output.size_bytes();
      return OkStatus();
    }
    const std::string reason = Where(file, Message(status));
    if (status.code() != StatusCode::kUnavailable) return MakeStatus(status.code(), reason);
    if (output.size_bytes() > before_bytes) {
      attempt = 1;
      backoff = kFirstBackoff;
    }
    if (attempt == kMaxAttempts) return Unavailable(StrCat(reason, " (", attempt, " attempts)"));
    const Duration pause = std::min(std::max(backoff, retry_after), kLastBackoff);
    if (pause >= TimeLeft()) {
      return Unavailable(reason + " (and the time that --source-timeout allows a source is over)");
    }
    if (!monitor_.Wait(pause)) return Cancelled();
    backoff = std::min(2 * backoff, kLastBackoff);
  }
}

Status Downloader::Tell(const RemoteFile& file, const Status& status) const {
  if (file.shown.empty() || status.ok() || status.code() == StatusCode::kCancelled) return status;
  LogWarning(StrCat(file.shown, " is ", file.url, ": ", JsonQuote(Message(status))));
  const char* reason = status.code() == StatusCode::kUnavailable
                           ? "the server cannot be reached, or breaks off; the log says more"
                           : "the server cannot be used; the log says why";
  return MakeStatus(status.code(), reason);
}

Status Downloader::TryOnce(const RemoteFile& file, DownloadOutput& output, std::string* etag,
                           Duration* retry_after) {
  const int64_t max_bytes = std::min(file.max_bytes, policy_.max_bytes - done_bytes_);
  ResolvedUrl at = {.url = file.url, .origin = file.origin};
  for (int num_redirects = 0; num_redirects <= kMaxRedirects; ++num_redirects) {
    if (TimeLeft() <= Duration::zero()) return Unavailable("there is no time left");
    Attempt attempt(output, {.max_bytes = max_bytes, .done_bytes = done_bytes_}, etag, monitor_);
    HttpGet get = {.url = at.url, .headers = attempt.RangeHeaders(), .timeout = TimeLeft()};
    // Credentials are for whom they were meant.
    if (at.origin == file.origin) {
      get.headers.insert(get.headers.end(), file.headers.begin(), file.headers.end());
      get.sign = file.sign;
    }
    Status status = transport_.Get(get, attempt, monitor_);
    if (attempt.location().empty()) {
      *retry_after = attempt.retry_after();
      return attempt.has_refused() ? status : Tell(file, status);
    }
    if (!file.may_be_redirected) {
      return InvalidArgument("it is redirected, and objects of a bucket must not be");
    }
    ASSIGN_OR_RETURN(at, ResolveUrl(at.url, attempt.location()));
    const bool is_allowed =
        at.origin == file.origin ||
        std::ranges::find(file.redirect_origins, at.origin) != file.redirect_origins.end();
    if (!is_allowed) {
      return Tell(file, InvalidArgument(StrCat(
                            "it is redirected to ", at.origin.Text(),
                            ", which is another host (--hub-redirect-origin allows a hub's; other "
                            "sources must not be redirected)")));
    }
  }
  return InvalidArgument(StrCat("it is redirected more than ", kMaxRedirects, " times"));
}

Status Downloader::DownloadTo(const std::string& path, const RemoteFile& file) {
  FileOutput output(path);
  RETURN_IF_ERROR(output.CheckOpen());
  Status status = Download(file, output);
  if (status.code() == StatusCode::kNotFound) unlink(path.c_str());
  return status;
}

StatusOr<std::string> Downloader::DownloadText(const RemoteFile& file) {
  TextOutput output;
  RETURN_IF_ERROR(Download(file, output));
  return output.Take();
}

}  // namespace aril
