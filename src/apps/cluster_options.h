// What the processes of a cluster have in common: links to one another, and what they serve.

#ifndef ARIL_APPS_CLUSTER_OPTIONS_H_
#define ARIL_APPS_CLUSTER_OPTIONS_H_

#include <string>
#include <vector>

#include "apps/adapter_list.h"
#include "base/clock.h"
#include "base/status.h"
#include "cluster/frames.h"
#include "cluster/grpc_links.h"

namespace aril {

struct ClusterOptions {
  std::vector<std::string> schedulers;  // "HOST:PORT"; of gateways and runners
  std::string listen;                   // of schedulers and runners
  std::string advertise;                // of runners; empty: where it listens
  cluster::TlsFiles tls;
  bool allows_insecure = false;
  std::string status_listen;  // "HOST:PORT" of schedulers' and runners' StatusServer; empty: none
};

// InvalidArgument if an address is none, or there is no scheduler.
Status CheckSchedulers(const ClusterOptions& options);

cluster::GrpcLinksOptions LinkOptions(const ClusterOptions& options);

// Of a process that begins now: an id and an instance that no other has, from the operating
// system's random numbers.
cluster::Hello MakeHello(cluster::Role role);

// The digests of the base model and of the adapters' files. InvalidArgument or NotFound names a
// file that cannot be read.
StatusOr<cluster::Deployment> DescribeDeployment(const std::string& model_dir,
                                                 const std::vector<NamedAdapter>& adapters);

}  // namespace aril

#endif  // ARIL_APPS_CLUSTER_OPTIONS_H_
