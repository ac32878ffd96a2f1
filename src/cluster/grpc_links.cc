#include "cluster/grpc_links.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "base/strings.h"
#include "cluster/aril.grpc.pb.h"
#include "cluster/codec.h"
#include "cluster/credentials.h"

namespace aril::cluster {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(2);
// A peer has one stream; a few may overlap while links are opened anew.
constexpr int kMaxStreamsPerConnection = 16;
constexpr size_t kMaxTlsFileBytes = 1 << 20;

int Milliseconds(Duration duration) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

grpc::Status ToGrpc(const Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), Message(status)};
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return Unavailable("the other end has closed the link");
  // Perhaps by this end, when a read had failed.
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    return Unavailable("the other end has cancelled the link, or sent what is no message");
  }
  return MakeStatus(static_cast<StatusCode>(status.error_code()), status.error_message());
}

// A link, whichever end of it this is. A stream's reactor keeps itself until OnDone.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void Send(std::unique_ptr<v1::Frame> frame) = 0;
  virtual void Close(const Status& why) = 0;
  virtual void ReadNext() = 0;
};

// What streams tell whoever has them. Any thread.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void OnRead(LinkId link, const v1::Frame& frame) = 0;
  virtual void OnEnd(LinkId link, const Status& why) = 0;
};

// Reads one frame at a time and writes one at a time, in order.
//
// gRPC never calls a reaction from within Start…, TryCancel or Finish (reactions of an application
// are handed to its executor), so these may be called with the mutex held; and they must be, so
// that nothing is started on a stream that has ended meanwhile.
template <typename Reactor, typename Derived>
class StreamOf : public Reactor, public Stream {
 public:
  StreamOf(LinkId link, int64_t max_queued_bytes, Listener& listener)
      : link_(link), max_queued_bytes_(max_queued_bytes), listener_(listener) {}

  void Send(std::unique_ptr<v1::Frame> frame) final {
    const std::lock_guard lock(mutex_);
    if (is_ended_) return;
    const auto bytes = static_cast<int64_t>(frame->ByteSizeLong());
    if (queued_bytes_ + bytes > max_queued_bytes_) {
      return End(ResourceExhausted(
          StrCat("the other end is too slow: ", queued_bytes_, " bytes wait to be sent to it")));
    }
    queued_bytes_ += bytes;
    queue_.emplace_back(std::move(frame), bytes);
    if (!is_writing_) WriteNext();
  }

  void Close(const Status& why) final {
    const std::lock_guard lock(mutex_);
    if (!is_ended_) End(why);
  }

  void ReadNext() final {
    const std::lock_guard lock(mutex_);
    if (!is_ended_) this->StartRead(&read_);
  }

  // A read fails when the other end has ended the link, and when what came is no message: then
  // nobody else ends it.
  void OnReadDone(bool is_ok) final {
    if (is_ok) return listener_.OnRead(link_, read_);
    const std::lock_guard lock(mutex_);
    if (!is_ended_) End(OkStatus());
  }

  void OnWriteDone(bool is_ok) final {
    const std::lock_guard lock(mutex_);
    is_writing_ = false;
    if (!queue_.empty()) {
      queued_bytes_ -= queue_.front().second;
      queue_.pop_front();
    }
    // If it failed, so does the read that is under way, or the next one.
    if (is_ok && !is_ended_ && !queue_.empty()) WriteNext();
  }

 protected:
  // With the mutex held; once.
  void End(const Status& why) {
    is_ended_ = true;
    why_ = why;
    static_cast<Derived*>(this)->Finish(why, is_writing_);
  }
  LinkId link() const { return link_; }
  Listener& listener() { return listener_; }
  // After the end.
  const Status& why() const { return why_; }

 private:
  void WriteNext() {
    is_writing_ = true;
    this->StartWrite(queue_.front().first.get());
  }

  const LinkId link_;
  const int64_t max_queued_bytes_;
  Listener& listener_;
  v1::Frame read_;
  std::mutex mutex_;
  std::deque<std::pair<std::unique_ptr<v1::Frame>, int64_t>> queue_;  // the first is being written
  int64_t queued_bytes_ = 0;
  bool is_writing_ = false;
  bool is_ended_ = false;
  Status why_;
};

class DialledStream final
    : public StreamOf<grpc::ClientBidiReactor<v1::Frame, v1::Frame>, DialledStream> {
 public:
  DialledStream(LinkId link, int64_t max_queued_bytes, Listener& listener,
                const std::shared_ptr<grpc::Channel>& channel)
      : StreamOf(link, max_queued_bytes, listener), stub_(v1::Cluster::NewStub(channel)) {}

  void Begin() {
    stub_->async()->Open(&context_, this);
    AddHold();  // operations are begun outside of reactions, until Finish
    StartCall();
    ReadNext();
  }
  void Finish(const Status&, bool /*is_writing*/) {
    // Or OnDone might never come. A status that is there already stays.
    context_.TryCancel();
    RemoveHold();
  }
  void OnDone(const grpc::Status& status) override {
    listener().OnEnd(link(), why().ok() ? FromGrpc(status) : why());
  }

 private:
  const std::unique_ptr<v1::Cluster::Stub> stub_;
  grpc::ClientContext context_;
};

class AcceptedStream final
    : public StreamOf<grpc::ServerBidiReactor<v1::Frame, v1::Frame>, AcceptedStream> {
 public:
  AcceptedStream(LinkId link, int64_t max_queued_bytes, Listener& listener,
                 grpc::CallbackServerContext* context)
      : StreamOf(link, max_queued_bytes, listener), context_(context) {}

  void Finish(const Status& why, bool is_writing) {
    // What the other end does not take would hold the status up.
    if (is_writing) context_->TryCancel();
    // Without a reason a read has failed, and if the other end is still there, by what it has sent.
    grpc::ServerBidiReactor<v1::Frame, v1::Frame>::Finish(
        ToGrpc(why.ok() ? InvalidArgument("what came on the link is no message") : why));
  }
  void OnDone() override {
    listener().OnEnd(link(), why().ok() ? Unavailable("the other end has closed the link, or sent "
                                                      "what is no message")
                                        : why());
  }

 private:
  grpc::CallbackServerContext* const context_;
};

// Answers a stream that is not accepted.
class RefusedStream final : public grpc::ServerBidiReactor<v1::Frame, v1::Frame> {
 public:
  explicit RefusedStream(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

StatusOr<std::string> ReadPem(const std::string& flag, const std::string& path) {
  if (path.empty()) {
    return InvalidArgument(flag +
                           " is missing: TLS needs a certificate, its key, and the authority "
                           "that signs the other end's");
  }
  auto text = ReadFile(path, kMaxTlsFileBytes);
  if (!text.ok()) return Annotate(text.status(), flag);
  return text;
}

}  // namespace

StatusOr<HostPort> ParseHostPort(const std::string& flag, const std::string& text) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string::npos && colon > 0) {
    parsed.host = text.substr(0, colon);
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, parsed.port);
    const bool is_bracketed = parsed.host.front() == '[' && parsed.host.back() == ']';
    const bool is_plain = parsed.host.find_first_of(":[]/ ") == std::string::npos;
    if (error == std::errc() && rest == end && (is_bracketed || is_plain)) return parsed;
  }
  return InvalidArgument(
      StrCat(flag, " ", text, ": expected HOST:PORT, such as 127.0.0.1:7400 or [::1]:7400"));
}

bool IsLoopback(const std::string& host) {
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return ntohl(address.s_addr) >> 24 == 127;
  return host == "localhost" || host == "[::1]";
}

Status CheckPlaintext(const std::string& what, const HostPort& address, const std::string& flags,
                      const TlsFiles& tls) {
  if (tls.is_set() || IsLoopback(address.host)) return OkStatus();
  return FailedPrecondition(StrCat(what, " ", address.host, ":", address.port,
                                   " without TLS is refused: give ", flags, "-cert, ", flags,
                                   "-key and ", flags,
                                   "-ca, or --cluster-insecure if nobody else can reach that "
                                   "network"));
}

StatusOr<Credentials> MakeCredentials(const std::string& flags, const TlsFiles& tls) {
  if (!tls.is_set()) {
    return Credentials{grpc::InsecureServerCredentials(), grpc::InsecureChannelCredentials()};
  }
  ASSIGN_OR_RETURN(const std::string cert, ReadPem(flags + "-cert", tls.cert_file));
  ASSIGN_OR_RETURN(const std::string key, ReadPem(flags + "-key", tls.key_file));
  ASSIGN_OR_RETURN(const std::string ca, ReadPem(flags + "-ca", tls.ca_file));
  grpc::SslServerCredentialsOptions server(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = ca;
  server.pem_key_cert_pairs.push_back({key, cert});
  grpc::SslCredentialsOptions client;
  client.pem_root_certs = ca;
  client.pem_private_key = key;
  client.pem_cert_chain = cert;
  return Credentials{grpc::SslServerCredentials(server), grpc::SslCredentials(client)};
}

class GrpcLinks::Impl final : public Listener, public v1::Cluster::CallbackService {
 public:
  Impl(const GrpcLinksOptions& options, Credentials credentials, NodeLoop& loop, const Clock& clock)
      : options_(options), credentials_(std::move(credentials)), loop_(loop), clock_(clock) {}

  ~Impl() override {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    for (const auto& stream : AllStreams()) stream->Close(Unavailable("the process is ending"));
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    {
      std::unique_lock lock(mutex_);
      all_ended_.wait(lock, [this] { return streams_.empty(); });
    }
    server_.reset();
  }

  Status Listen() {
    if (options_.listen.empty()) return OkStatus();
    ASSIGN_OR_RETURN(const HostPort address, ParseHostPort("--listen", options_.listen));
    RETURN_IF_ERROR(CheckAllowed("listening on", address));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(options_.listen, credentials_.server, &port);
    builder.RegisterService(this);
    builder.SetMaxReceiveMessageSize(static_cast<int>(options_.max_frame_bytes));
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                               Milliseconds(options_.keep_alive_interval));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                               Milliseconds(options_.keep_alive_timeout));
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    // The other end's keep-alive is as frequent as ours, and no attack.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return FailedPrecondition(StrCat("--listen ", options_.listen,
                                       ": cannot listen there; is the port in use, or the "
                                       "certificate not the key's?"));
    }
    port_ = static_cast<uint16_t>(port);
    return OkStatus();
  }

  uint16_t port() const { return port_; }

  LinkId Dial(const std::string& address) {
    Bury();
    const LinkId link = NextLink();
    const auto parsed = ParseHostPort("address", address);
    const Status allowed = parsed.ok() ? CheckAllowed("connecting to", *parsed) : parsed.status();
    if (!allowed.ok()) {
      PostBroken(link, allowed);
      return link;
    }
    grpc::ChannelArguments arguments;
    // One connection for each link, tried once: the node decides when to try again.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(kConnectTimeout));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options_.keep_alive_interval));
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options_.keep_alive_timeout));
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    arguments.SetMaxReceiveMessageSize(static_cast<int>(options_.max_frame_bytes));
    const auto channel = grpc::CreateCustomChannel(address, credentials_.client, arguments);
    auto stream = std::make_shared<DialledStream>(link, options_.max_queued_bytes, *this, channel);
    if (!Add(link, stream)) return link;
    stream->Begin();
    return link;
  }

  grpc::ServerBidiReactor<v1::Frame, v1::Frame>* Open(
      grpc::CallbackServerContext* context) override {
    const LinkId link = NextLink();
    auto stream = std::make_shared<AcceptedStream>(link, options_.max_queued_bytes, *this, context);
    {
      const std::lock_guard lock(mutex_);
      if (is_ending_ || num_accepted_ >= options_.max_links) {
        return new RefusedStream(
            {grpc::StatusCode::RESOURCE_EXHAUSTED,
             StrCat("this process has ", num_accepted_, " links, its limit, or is ending")});
      }
      ++num_accepted_;
      streams_[link] = {stream, true};
    }
    loop_.PostToNode([link](Node& node, TimePoint now) { node.OnAccepted(link, now); });
    stream->ReadNext();
    return stream.get();
  }

  void Send(LinkId link, const Frame& frame) {
    const auto stream = Find(link);
    if (stream == nullptr) return;
    auto proto = std::make_unique<v1::Frame>();
    ToProto(frame, clock_.Now(), proto.get());
    stream->Send(std::move(proto));
  }

  void Close(LinkId link, const Status& why) {
    if (const auto stream = Find(link)) stream->Close(why);
  }

  void OnRead(LinkId link, const v1::Frame& proto) override {
    const auto stream = Find(link);
    if (stream == nullptr) return;
    auto frame = FromProto(proto, clock_.Now());
    if (frame.status().code() == StatusCode::kUnimplemented) return stream->ReadNext();
    if (!frame.ok()) {
      const auto answer = AnswerToBad(proto, frame.status());
      if (!answer) return stream->Close(frame.status());
      LogWarning(StrCat("an attempt ends before it has begun: ", Message(frame.status())));
      Send(link, *answer);
      return stream->ReadNext();
    }
    loop_.PostToNode([stream, link, held = std::make_shared<Frame>(*std::move(frame))](
                         Node& node, TimePoint now) {
      node.OnFrame(link, std::move(*held), now);
      stream->ReadNext();
    });
  }

  void OnEnd(LinkId link, const Status& why) override {
    PostBroken(link, why);
    std::shared_ptr<Stream> ended;  // goes when the mutex is free
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(link);
    if (found->second.is_accepted) {
      ended = std::move(found->second.stream);
      --num_accepted_;
    } else {
      ended_.push_back(std::move(found->second.stream));
    }
    streams_.erase(found);
    if (streams_.empty()) all_ended_.notify_all();
  }

 private:
  struct Entry {
    std::shared_ptr<Stream> stream;
    bool is_accepted = false;
  };

  Status CheckAllowed(const std::string& what, const HostPort& address) const {
    if (options_.allows_insecure) return OkStatus();
    return CheckPlaintext(what, address, "--cluster", options_.tls);
  }

  // A stream that was dialled owns its channel. gRPC's threads belong to its channels, and the last
  // of these waits for them to end: it must not go in a reaction, which one of them runs.
  void Bury() {
    std::vector<std::shared_ptr<Stream>> ended;
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
  }

  LinkId NextLink() { return LinkId(next_link_.fetch_add(1)); }

  bool Add(LinkId link, std::shared_ptr<Stream> stream) {
    const std::lock_guard lock(mutex_);
    if (!is_ending_) streams_[link] = {std::move(stream), false};
    return !is_ending_;
  }

  std::shared_ptr<Stream> Find(LinkId link) {
    const std::lock_guard lock(mutex_);
    const auto found = streams_.find(link);
    return found == streams_.end() ? nullptr : found->second.stream;
  }

  std::vector<std::shared_ptr<Stream>> AllStreams() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Stream>> all;
    for (const auto& [link, entry] : streams_) all.push_back(entry.stream);
    return all;
  }

  void PostBroken(LinkId link, const Status& why) {
    loop_.PostToNode([link, why](Node& node, TimePoint now) { node.OnBroken(link, why, now); });
  }

  const GrpcLinksOptions options_;
  const Credentials credentials_;
  NodeLoop& loop_;
  const Clock& clock_;
  std::unique_ptr<grpc::Server> server_;
  uint16_t port_ = 0;
  std::atomic<int64_t> next_link_ = 1;
  std::mutex mutex_;
  std::condition_variable all_ended_;
  std::map<LinkId, Entry> streams_;             // guarded by mutex_, as are these
  std::vector<std::shared_ptr<Stream>> ended_;  // dialled ones; until the next is dialled
  size_t num_accepted_ = 0;
  bool is_ending_ = false;
};

GrpcLinks::GrpcLinks(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcLinks::~GrpcLinks() = default;

StatusOr<std::unique_ptr<GrpcLinks>> GrpcLinks::Create(const GrpcLinksOptions& options,
                                                       NodeLoop& loop, const Clock& clock) {
  ASSIGN_OR_RETURN(Credentials credentials, MakeCredentials("--cluster", options.tls));
  auto impl = std::make_unique<Impl>(options, std::move(credentials), loop, clock);
  RETURN_IF_ERROR(impl->Listen());
  return std::unique_ptr<GrpcLinks>(new GrpcLinks(std::move(impl)));
}

uint16_t GrpcLinks::port() const { return impl_->port(); }
LinkId GrpcLinks::Dial(const std::string& address) { return impl_->Dial(address); }
void GrpcLinks::Send(LinkId link, const Frame& frame) { impl_->Send(link, frame); }
void GrpcLinks::Close(LinkId link, const Status& why) { impl_->Close(link, why); }

}  // namespace aril::cluster
