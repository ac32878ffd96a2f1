#include "apps/cluster_options.h"

#include <limits>
#include <random>

#include "apps/model_fingerprint.h"
#include "base/strings.h"
#include "catalog/generation_store.h"

namespace aril {

Status CheckSchedulers(const ClusterOptions& options) {
  if (options.schedulers.empty()) {
    return InvalidArgument("--scheduler is required: HOST:PORT of each scheduler of the cluster");
  }
  for (const std::string& address : options.schedulers) {
    RETURN_IF_ERROR(cluster::ParseHostPort("--scheduler", address).status());
  }
  return OkStatus();
}

cluster::GrpcLinksOptions LinkOptions(const ClusterOptions& options) {
  return {.listen = options.listen, .allows_insecure = options.allows_insecure, .tls = options.tls};
}

cluster::Hello MakeHello(cluster::Role role) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::random_device random;
  cluster::Hello hello;
  hello.version = ARIL_VERSION;
  hello.role = role;
  const uint32_t mask = std::numeric_limits<int32_t>::max();
  if (role != cluster::Role::kScheduler) hello.id = static_cast<int32_t>(random() & mask);
  for (int i = 0; i < 32; ++i) hello.instance.push_back(kHex[random() & 15]);
  return hello;
}

StatusOr<cluster::Deployment> DescribeDeployment(const std::string& model_dir,
                                                 const std::vector<NamedAdapter>& adapters) {
  cluster::Deployment deployment;
  ASSIGN_OR_RETURN(deployment.base_digest, ModelFingerprint(model_dir));
  for (const NamedAdapter& adapter : adapters) {
    ASSIGN_OR_RETURN(std::string digest, DigestOfAdapter(adapter.dir));
    deployment.adapters.push_back({adapter.name, std::move(digest)});
  }
  return deployment;
}

}  // namespace aril
