#include "sources/http_transport.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "sources/ip_address.h"

namespace aril {
namespace {

constexpr long kBufferBytes = 256 << 10;
// Of a head: servers send one or two; the rest is somebody trying.
constexpr size_t kMaxHeadBytes = 64 << 10;

int64_t Milliseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

// One transfer, as libcurl's callbacks see it.
struct Transfer {
  HttpReplySink& sink;
  const TransferMonitor& monitor;
  bool allow_private = false;

  HttpReplyHead head;
  size_t head_bytes = 0;
  bool head_done = false;
  Status status;                // of the sink
  std::string refused_address;  // the last one that was not contacted

  bool OnHeaderLine(std::string_view line);
  bool OnBody(std::string_view bytes);

 private:
  void OnField(std::string_view line);
};

// Lines of every head arrive here, those of 1xx answers included, and trailers.
bool Transfer::OnHeaderLine(std::string_view line) {
  if (head_done) return true;
  head_bytes += line.size();
  if (head_bytes > kMaxHeadBytes) {
    status =
        InvalidArgument(StrCat("the head of the answer is larger than ", kMaxHeadBytes, " bytes"));
    return false;
  }
  if (line.starts_with("HTTP/")) {
    head = {};
    const size_t space = std::min(line.find(' '), line.size() - 1);
    head.status = ParseNumber<int>(Trim(line.substr(space + 1, 3))).value_or(0);
    return true;
  }
  if (!Trim(line).empty()) {
    OnField(line);
    return true;
  }
  if (head.status < 200) return true;
  head_done = true;
  status = sink.OnHead(head);
  return status.ok();
}

void Transfer::OnField(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string name = Lower(line.substr(0, colon));
  const std::string value(Trim(line.substr(colon + 1)));
  if (name == "content-length") head.content_length = ParseNumber<int64_t>(value);
  if (name == "content-encoding") head.content_encoding = Lower(value);
  if (name == "content-range") head.content_range = value;
  if (name == "etag") head.etag = value;
  if (name == "location") head.location = value;
  if (name == "retry-after") head.retry_after = value;
}

bool Transfer::OnBody(std::string_view bytes) {
  if (!head_done) status = InvalidArgument("the answer has no head");
  if (status.ok()) status = sink.OnBody(bytes);
  return status.ok();
}

size_t HeaderCallback(char* data, size_t size, size_t count, void* transfer) {
  const std::string_view line(data, size * count);
  return static_cast<Transfer*>(transfer)->OnHeaderLine(line) ? line.size() : 0;
}

size_t BodyCallback(char* data, size_t size, size_t count, void* transfer) {
  const std::string_view bytes(data, size * count);
  return static_cast<Transfer*>(transfer)->OnBody(bytes) ? bytes.size() : 0;
}

int ProgressCallback(void* transfer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Transfer*>(transfer)->monitor.IsCancelled() ? 1 : 0;
}

// What a name resolves to is looked at here, where it is used: a second look-up, which might say
// something else, does not take place.
curl_socket_t OpenSocket(void* data, curlsocktype, curl_sockaddr* address) {
  auto* transfer = static_cast<Transfer*>(data);
  const AddressReach reach = ReachOf(address->addr);
  const bool is_allowed = reach == AddressReach::kPublic ||
                          (reach == AddressReach::kPrivate && transfer->allow_private);
  if (!is_allowed) {
    transfer->refused_address = AddressText(address->addr);
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

class HeaderList {
 public:
  HeaderList() = default;
  HeaderList(const HeaderList&) = delete;
  HeaderList& operator=(const HeaderList&) = delete;
  ~HeaderList() { curl_slist_free_all(list_); }
  void Append(const std::string& line) {
    curl_slist* longer = curl_slist_append(list_, line.c_str());
    CHECK(longer != nullptr);  // out of memory
    list_ = longer;
  }
  curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

class CurlTransport final : public HttpTransport {
 public:
  explicit CurlTransport(const SourcePolicy& policy)
      : allow_private_(policy.allow_private),
        connect_timeout_(policy.connect_timeout),
        stall_timeout_(policy.stall_timeout),
        ca_file_(policy.ca_file) {
    static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
    CHECK_EQ(initialized, CURLE_OK);
    curl_ = curl_easy_init();
    CHECK(curl_ != nullptr);  // out of memory
  }
  CurlTransport(const CurlTransport&) = delete;
  CurlTransport& operator=(const CurlTransport&) = delete;
  ~CurlTransport() override { curl_easy_cleanup(curl_); }

  Status Get(const HttpGet& get, HttpReplySink& sink, const TransferMonitor& monitor) override;

 private:
  template <typename Value>
  void Set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(curl_, option, value);
    CHECK_EQ(code, CURLE_OK);  // what is set is ours, and of a libcurl that has it
  }
  void SetPolicy(const HttpGet& get);
  void SetCallbacks(Transfer& transfer);
  void Sign(const AwsCredentials& credentials);
  Status ErrorOf(CURLcode code, const Transfer& transfer) const;

  const bool allow_private_;
  const Duration connect_timeout_;
  const Duration stall_timeout_;
  const std::string ca_file_;
  CURL* curl_ = nullptr;
  char error_[CURL_ERROR_SIZE] = {};
};

void CurlTransport::SetPolicy(const HttpGet& get) {
  Set(CURLOPT_URL, get.url.c_str());
  // A path that was checked is asked for as it is.
  Set(CURLOPT_PATH_AS_IS, 1L);
  Set(CURLOPT_PROTOCOLS_STR, get.url.starts_with("http://") ? "http" : "https");
  Set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
  Set(CURLOPT_FOLLOWLOCATION, 0L);
  Set(CURLOPT_PROXY, "");
  Set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  Set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  if (!ca_file_.empty()) {
    Set(CURLOPT_CAINFO, ca_file_.c_str());
    Set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  }
  Set(CURLOPT_NOSIGNAL, 1L);
  Set(CURLOPT_BUFFERSIZE, kBufferBytes);
  // 0 would mean none.
  Set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<int64_t>(1, Milliseconds(get.timeout))));
  Set(CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(std::max<int64_t>(1, Milliseconds(connect_timeout_))));
  Set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  Set(CURLOPT_LOW_SPEED_TIME,
      static_cast<long>(std::max<int64_t>(1, Milliseconds(stall_timeout_) / 1000)));
}

void CurlTransport::SetCallbacks(Transfer& transfer) {
  Set(CURLOPT_HEADERFUNCTION, &HeaderCallback);
  Set(CURLOPT_HEADERDATA, &transfer);
  Set(CURLOPT_WRITEFUNCTION, &BodyCallback);
  Set(CURLOPT_WRITEDATA, &transfer);
  Set(CURLOPT_NOPROGRESS, 0L);
  Set(CURLOPT_XFERINFOFUNCTION, &ProgressCallback);
  Set(CURLOPT_XFERINFODATA, &transfer);
  Set(CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
  Set(CURLOPT_OPENSOCKETDATA, &transfer);
  Set(CURLOPT_ERRORBUFFER, error_);
}

void CurlTransport::Sign(const AwsCredentials& credentials) {
  Set(CURLOPT_AWS_SIGV4, StrCat("aws:amz:", credentials.region, ":s3").c_str());
  Set(CURLOPT_USERNAME, credentials.access_key_id.c_str());
  Set(CURLOPT_PASSWORD, credentials.secret_access_key.c_str());
}

Status CurlTransport::Get(const HttpGet& get, HttpReplySink& sink, const TransferMonitor& monitor) {
  Transfer transfer = {.sink = sink, .monitor = monitor, .allow_private = allow_private_};
  curl_easy_reset(curl_);
  error_[0] = '\0';
  SetPolicy(get);
  SetCallbacks(transfer);
  HeaderList headers;
  for (const std::string& header : get.headers) headers.Append(header);
  if (get.sign != nullptr) {
    Sign(*get.sign);
    headers.Append("x-amz-content-sha256: " + Sha256(std::string()));  // of no body; S3 insists
    if (!get.sign->session_token.empty()) {
      headers.Append("X-Amz-Security-Token: " + get.sign->session_token);
    }
  }
  Set(CURLOPT_HTTPHEADER, headers.get());
  const CURLcode code = curl_easy_perform(curl_);
  if (!transfer.status.ok()) return transfer.status;
  return code == CURLE_OK ? OkStatus() : ErrorOf(code, transfer);
}

Status CurlTransport::ErrorOf(CURLcode code, const Transfer& transfer) const {
  if (transfer.monitor.IsCancelled()) return MakeStatus(StatusCode::kCancelled, "cancelled");
  const std::string reason = error_[0] != '\0' ? error_ : curl_easy_strerror(code);
  switch (code) {
    case CURLE_COULDNT_CONNECT:
      if (transfer.refused_address.empty()) return Unavailable(reason);
      return InvalidArgument(
          StrCat("the host leads to ", transfer.refused_address,
                 ", which is not contacted: an address of this machine or network needs "
                 "--allow-private-sources, and link-local and reserved ones are never allowed"));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return InvalidArgument(StrCat("its certificate is not trusted: ", reason));
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
      return InvalidArgument(reason);
    default:
      return Unavailable(reason);
  }
}

class CurlUrl {
 public:
  CurlUrl() : url_(curl_url()) { CHECK(url_ != nullptr); }  // out of memory
  CurlUrl(const CurlUrl&) = delete;
  CurlUrl& operator=(const CurlUrl&) = delete;
  ~CurlUrl() { curl_url_cleanup(url_); }

  bool Set(const std::string& text) {
    return curl_url_set(url_, CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  }
  std::string Get(CURLUPart part, unsigned int flags = 0) const {
    char* text = nullptr;
    if (curl_url_get(url_, part, &text, flags) != CURLUE_OK) return "";
    std::string copy = text;
    curl_free(text);
    return copy;
  }

 private:
  CURLU* url_;
};

}  // namespace

std::unique_ptr<HttpTransport> MakeHttpTransport(const SourcePolicy& policy) {
  return std::make_unique<CurlTransport>(policy);
}

StatusOr<ResolvedUrl> ResolveUrl(const std::string& base, const std::string& location) {
  const Status error = InvalidArgument("it is redirected to what is no http or https URL");
  CurlUrl url;
  // libcurl would read a string up to a NUL.
  if (location.find('\0') != std::string::npos || !url.Set(base) || !url.Set(location))
    return error;
  const std::string scheme = url.Get(CURLUPART_SCHEME);
  if ((scheme != "http" && scheme != "https") || !url.Get(CURLUPART_USER).empty() ||
      !url.Get(CURLUPART_PASSWORD).empty()) {
    return error;
  }
  // As strict with the host as with one that a client names.
  auto origin = ParseOrigin(StrCat(scheme, "://", Lower(url.Get(CURLUPART_HOST)), ":",
                                   url.Get(CURLUPART_PORT, CURLU_DEFAULT_PORT)),
                            /*allow_http=*/true);
  if (!origin.ok()) return error;
  std::string text = url.Get(CURLUPART_URL);
  const size_t host = text.find("://") + 3;
  // An empty user is none to libcurl, but still stands there.
  if (text.substr(host, text.find_first_of("/?#", host) - host).find('@') != std::string::npos) {
    return error;
  }
  return ResolvedUrl{.url = std::move(text), .origin = *std::move(origin)};
}

}  // namespace aril
