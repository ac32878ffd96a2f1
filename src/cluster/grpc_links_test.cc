// Links over real connections on this machine's loopback.

#include "cluster/grpc_links.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <future>
#include <map>
#include <mutex>

#include "base/strings.h"
#include "cluster/etcd_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace aril::cluster {
namespace {

using ::testing::HasSubstr;

// Remembers what happens; lets a test wait for it.
class RecordingNode final : public Node {
 public:
  void OnAccepted(LinkId link, TimePoint) override {
    Change([&] { accepted_.push_back(link); });
  }
  void OnFrame(LinkId, Frame frame, TimePoint) override {
    Change([&] { frames_.push_back(std::move(frame)); });
  }
  void OnBroken(LinkId link, const Status& why, TimePoint) override {
    Change([&] { broken_[link] = why; });
  }
  void OnTick(TimePoint) override {}

  LinkId WaitForAccepted() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !accepted_.empty(); });
    return accepted_.back();
  }
  std::vector<Frame> WaitForFrames(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return frames_.size() >= count; });
    return frames_;
  }
  Status WaitForBroken(LinkId link) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return broken_.contains(link); });
    return broken_.at(link);
  }

 private:
  template <typename Function>
  void Change(const Function& change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<LinkId> accepted_;
  std::vector<Frame> frames_;
  std::map<LinkId, Status> broken_;
};

class Process {
 public:
  explicit Process(const GrpcLinksOptions& options) : loop_(clock_) {
    auto links = GrpcLinks::Create(options, loop_, clock_);
    EXPECT_TRUE(links.ok()) << links.status();
    links_ = *std::move(links);
    loop_.Start(node);
  }
  ~Process() { Stop(); }
  void Stop() {
    loop_.Stop();
    links_.reset();
  }
  GrpcLinks& links() { return *links_; }
  std::string address() const { return StrCat("127.0.0.1:", links_->port()); }

  RecordingNode node;

 private:
  RealClock clock_;
  NodeLoop loop_;
  std::unique_ptr<GrpcLinks> links_;
};

GrpcLinksOptions Listening() { return {.listen = "127.0.0.1:0"}; }

// No frame: protobuf does not get beyond the first byte.
grpc::ByteBuffer Junk() {
  const grpc::Slice bytes("\xff\xff\xff");
  return {&bytes, 1};
}

// Listens as a process does, says what is no frame, and goes on waiting.
class JunkServer final : public grpc::CallbackGenericService {
 public:
  JunkServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  std::string address() const { return StrCat("127.0.0.1:", port_); }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor() { StartWrite(&junk_); }
    void OnCancel() override { Finish(grpc::Status::CANCELLED); }
    void OnDone() override { delete this; }

   private:
    const grpc::ByteBuffer junk_ = Junk();
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Opens a link as a process does, says what is no frame, and waits for the end.
class JunkClient final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit JunkClient(const std::string& address)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {
    stub_.PrepareBidiStreamingCall(&context_, "/aril.v1.Cluster/Open", {}, this);
    StartWrite(&junk_);
    StartCall();
  }
  grpc::Status WaitForEnd() { return end_.get_future().get(); }

 private:
  void OnDone(const grpc::Status& status) override { end_.set_value(status); }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  const grpc::ByteBuffer junk_ = Junk();
  std::promise<grpc::Status> end_;
};

TEST(GrpcLinks, CarryFramesInOrderBothWays) {
  Process server(Listening());
  Process client({});
  const LinkId link = client.links().Dial(server.address());
  constexpr int64_t kCount = 500;
  for (int64_t i = 0; i < kCount; ++i) client.links().Send(link, Welcome{Epoch(i)});
  const std::vector<Frame> got = server.node.WaitForFrames(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(std::get<Welcome>(got[static_cast<size_t>(i)]).epoch, Epoch(i));
  }
  const LinkId other = server.node.WaitForAccepted();
  for (int64_t i = 0; i < kCount; ++i) server.links().Send(other, Welcome{Epoch(i)});
  EXPECT_EQ(std::get<Welcome>(client.node.WaitForFrames(kCount).back()).epoch, Epoch(kCount - 1));
}

TEST(GrpcLinks, TellBothEndsOfTheEndAndTheDiallerWhy) {
  Process server(Listening());
  Process client({});
  const LinkId link = client.links().Dial(server.address());
  client.links().Send(link, Welcome{Epoch(1)});
  server.node.WaitForFrames(1);
  const LinkId other = server.node.WaitForAccepted();
  server.links().Close(other, FailedPrecondition("other adapters"));
  const Status why = client.node.WaitForBroken(link);
  EXPECT_EQ(why, FailedPrecondition("other adapters"));
  EXPECT_EQ(server.node.WaitForBroken(other), FailedPrecondition("other adapters"));
  // Afterwards nothing happens.
  client.links().Send(link, Welcome{Epoch(1)});
  client.links().Close(link, Unavailable("again"));

  const LinkId second = client.links().Dial(server.address());
  client.links().Send(second, Welcome{Epoch(2)});
  server.node.WaitForFrames(2);
  client.links().Close(second, Unavailable("enough"));
  EXPECT_EQ(client.node.WaitForBroken(second), Unavailable("enough"));
  EXPECT_FALSE(server.node.WaitForBroken(server.node.WaitForAccepted()).ok());
}

TEST(GrpcLinks, BreakWhenTheOtherProcessEnds) {
  Process server(Listening());
  Process client({});
  const LinkId link = client.links().Dial(server.address());
  client.links().Send(link, Welcome{Epoch(1)});
  server.node.WaitForFrames(1);
  server.Stop();
  EXPECT_EQ(client.node.WaitForBroken(link).code(), StatusCode::kUnavailable);
}

TEST(GrpcLinks, BreakWhereNobodyListens) {
  std::string address;
  {
    Process server(Listening());
    address = server.address();
  }
  Process client({});
  const Status why = client.node.WaitForBroken(client.links().Dial(address));
  EXPECT_EQ(why.code(), StatusCode::kUnavailable) << why;
  EXPECT_THAT(Message(client.node.WaitForBroken(client.links().Dial("nonsense"))),
              HasSubstr("expected HOST:PORT"));
}

TEST(GrpcLinks, AQueueThatIsFullBreaksItsLink) {
  Process server(Listening());
  Process client({.max_queued_bytes = 1000});
  const LinkId link = client.links().Dial(server.address());
  client.links().Send(link, Refusal{SequenceId(1), {}, std::string(2000, 'x')});
  const Status why = client.node.WaitForBroken(link);
  EXPECT_EQ(why.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(why), HasSubstr("the other end is too slow"));
}

TEST(GrpcLinks, ABadFrameBreaksItsLinkWithTheReason) {
  Process server(Listening());
  Process client({});
  const LinkId link = client.links().Dial(server.address());
  client.links().Send(link, delivery::CloseSequence{SequenceId(-7)});
  EXPECT_THAT(Message(client.node.WaitForBroken(link)), HasSubstr("sequence is -7"));
}

TEST(GrpcLinks, ABadAttemptEndsAloneAndItsLinkGoesOn) {
  Process server(Listening());
  Process client({});
  const LinkId link = client.links().Dial(server.address());
  delivery::StartAttempt start;
  start.epoch = Epoch(1);
  start.gateway = GatewayId(1);
  start.request.sequence = SequenceId(7);
  start.request.attempt = 2;
  start.request.sampling.top_p = 0;
  client.links().Send(link, start);
  const auto events = std::get<TokenEvents>(client.node.WaitForFrames(1).front()).events;
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].sequence, SequenceId(7));
  EXPECT_EQ(events[0].attempt, 2u);
  EXPECT_THAT(Message(events[0].error), HasSubstr("top_p is 0"));
  client.links().Send(link, Welcome{Epoch(5)});
  EXPECT_EQ(std::get<Welcome>(server.node.WaitForFrames(1).front()).epoch, Epoch(5));
}

TEST(GrpcLinks, WhatIsNoFrameBreaksTheLinkThatWasDialled) {
  JunkServer server;
  Process client({});
  const LinkId link = client.links().Dial(server.address());
  client.links().Send(link, Welcome{Epoch(1)});
  EXPECT_EQ(client.node.WaitForBroken(link),
            Unavailable("the other end has cancelled the link, or sent what is no message"));
}

TEST(GrpcLinks, WhatIsNoFrameBreaksTheLinkThatWasAccepted) {
  Process server(Listening());
  JunkClient client(server.address());
  EXPECT_EQ(client.WaitForEnd().error_message(), "what came on the link is no message");
  EXPECT_EQ(server.node.WaitForBroken(server.node.WaitForAccepted()).code(),
            StatusCode::kUnavailable);
}

TEST(GrpcLinks, AnEndWithAReasonIsNotTakenForOneWithout) {
  Process server(Listening());
  Process client({});
  for (int64_t i = 1; i <= 50; ++i) {
    const LinkId link = client.links().Dial(server.address());
    client.links().Send(link, Welcome{Epoch(i)});
    server.node.WaitForFrames(static_cast<size_t>(i));
    server.links().Close(server.node.WaitForAccepted(), FailedPrecondition("other adapters"));
    EXPECT_EQ(client.node.WaitForBroken(link), FailedPrecondition("other adapters"));
  }
}

TEST(GrpcLinks, TakeNoMoreLinksThanTheyMay) {
  GrpcLinksOptions options = Listening();
  options.max_links = 1;
  Process server(options);
  Process client({});
  client.links().Send(client.links().Dial(server.address()), Welcome{Epoch(1)});
  server.node.WaitForFrames(1);
  const Status why = client.node.WaitForBroken(client.links().Dial(server.address()));
  EXPECT_EQ(why.code(), StatusCode::kResourceExhausted) << why;
}

TEST(GrpcLinks, RefuseOtherMachinesWithoutTls) {
  RealClock clock;
  NodeLoop loop(clock);
  const auto error = [&](const GrpcLinksOptions& options) {
    return Message(GrpcLinks::Create(options, loop, clock).status());
  };
  EXPECT_THAT(error({.listen = "0.0.0.0:0"}), HasSubstr("--cluster-insecure"));
  EXPECT_EQ(error({.listen = "0.0.0.0:0", .allows_insecure = true}), "");
  EXPECT_THAT(error({.listen = "127.0.0.1"}), HasSubstr("expected HOST:PORT"));
  EXPECT_THAT(error({.listen = "127.example.com:0"}), HasSubstr("without TLS is refused"));
  EXPECT_THAT(error({.listen = "127.0.0.1:0", .tls = {.cert_file = "/nothing/here"}}),
              HasSubstr("--cluster-cert"));
  EXPECT_THAT(error({.listen = "127.0.0.1:0", .tls = {.ca_file = "ca.pem"}}),
              HasSubstr("--cluster-cert is missing"));
  Process client({});
  EXPECT_THAT(Message(client.node.WaitForBroken(client.links().Dial("192.0.2.1:7"))),
              HasSubstr("without TLS is refused"));
}

TEST(EtcdStore, IsNotAskedInPlainTextBeyondThisMachine) {
  const auto error = [](const EtcdStore::Options& options) {
    return Message(EtcdStore::Create(options).status());
  };
  EXPECT_THAT(error({.endpoints = {"127.0.0.1:2379", "192.0.2.1:2379"}}),
              AllOf(HasSubstr("etcd at 192.0.2.1:2379"), HasSubstr("--etcd-cert")));
  EXPECT_EQ(error({.endpoints = {"192.0.2.1:2379"}, .allows_insecure = true}), "");
}

TEST(GrpcLinks, SayThatAPortIsTaken) {
  Process server(Listening());
  RealClock clock;
  NodeLoop loop(clock);
  EXPECT_THAT(Message(GrpcLinks::Create({.listen = server.address()}, loop, clock).status()),
              HasSubstr("cannot listen there"));
}

TEST(HostPort, IsReadStrictly) {
  EXPECT_EQ(ParseHostPort("--x", "a.example:80")->port, 80);
  EXPECT_EQ(ParseHostPort("--x", "[::1]:0")->host, "[::1]");
  for (const char* bad : {"", "a", ":1", "a:", "a:x", "a:70000", "a:-1", "a:1 ", "::1:5", "a b:1",
                          "http://a:1", "[::1]", "[x:1"}) {
    EXPECT_FALSE(ParseHostPort("--x", bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace aril::cluster
