// gRPC's credentials from PEM files. Only for the sources that include gRPC anyway.

#ifndef ARIL_CLUSTER_CREDENTIALS_H_
#define ARIL_CLUSTER_CREDENTIALS_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "cluster/grpc_links.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace aril::cluster {

struct Credentials {
  std::shared_ptr<grpc::ServerCredentials> server;
  std::shared_ptr<grpc::ChannelCredentials> client;
};

// Without TLS if no file is set. InvalidArgument or NotFound names the flag ("--cluster" of
// "--cluster-cert") of a file that is missing or cannot be read.
StatusOr<Credentials> MakeCredentials(const std::string& flags, const TlsFiles& tls);

// FailedPrecondition if `what` ("connecting to") would send plain text beyond this machine: there
// are no certificates.
Status CheckPlaintext(const std::string& what, const HostPort& address, const std::string& flags,
                      const TlsFiles& tls);

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_CREDENTIALS_H_
