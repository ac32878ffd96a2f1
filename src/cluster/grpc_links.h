// Links over gRPC: one bidirectional stream each.
//
// A link carries frames in the order in which they were sent. The next frame is read when the node
// has dealt with the last one, so HTTP/2's flow control holds back a peer that is too fast. A peer
// that is too slow has its link broken (max_queued_bytes); a dead or paused one by keep-alive
// pings.

#ifndef ARIL_CLUSTER_GRPC_LINKS_H_
#define ARIL_CLUSTER_GRPC_LINKS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/links.h"
#include "cluster/node_loop.h"

namespace aril::cluster {

// PEM files. Both ends show a certificate, which must be signed by `ca_file`, and the server's must
// be for the name that was dialled.
struct TlsFiles {
  std::string cert_file;
  std::string key_file;
  std::string ca_file;

  bool is_set() const { return !cert_file.empty() || !key_file.empty() || !ca_file.empty(); }
};

struct GrpcLinksOptions {
  std::string listen;  // "HOST:PORT", port 0: any free one; empty: accepts nothing
  // Without TLS nothing is listened on, or dialled, but this machine's loopback, unless this is
  // set.
  bool allows_insecure = false;
  TlsFiles tls;
  Duration keep_alive_interval = std::chrono::seconds(2);
  Duration keep_alive_timeout = std::chrono::seconds(3);
  int64_t max_frame_bytes = int64_t{64} << 20;
  int64_t max_queued_bytes = int64_t{64} << 20;  // of one link
  size_t max_links = 4096;                       // accepted ones
};

// Splits "HOST:PORT", "[::1]:PORT". InvalidArgument, naming `flag`, if it is no such thing.
struct HostPort {
  std::string host;
  uint16_t port = 0;
};
StatusOr<HostPort> ParseHostPort(const std::string& flag, const std::string& text);
bool IsLoopback(const std::string& host);

class GrpcLinks final : public Links {
 public:
  // Listens; its events go to the node of `loop`, which must outlive this object. InvalidArgument
  // or FailedPrecondition says what is wrong with an address or a certificate.
  static StatusOr<std::unique_ptr<GrpcLinks>> Create(const GrpcLinksOptions& options,
                                                     NodeLoop& loop, const Clock& clock);
  // Breaks all links.
  ~GrpcLinks() override;

  // 0 if it does not listen.
  uint16_t port() const;

  LinkId Dial(const std::string& address) override;
  void Send(LinkId link, const Frame& frame) override;
  void Close(LinkId link, const Status& why) override;

 private:
  class Impl;
  explicit GrpcLinks(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_GRPC_LINKS_H_
