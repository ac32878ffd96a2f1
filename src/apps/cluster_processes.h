// The processes of a cluster: `aril scheduler`, `aril runner` and `aril gateway`. Each runs until
// one of the TerminationSignals, then ends in good order; an error says why it cannot start.

#ifndef ARIL_APPS_CLUSTER_PROCESSES_H_
#define ARIL_APPS_CLUSTER_PROCESSES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/cluster_options.h"
#include "apps/serve.h"
#include "base/clock.h"
#include "base/status.h"
#include "scheduler/scheduler.h"

namespace aril {

// An etcd that processes of a cluster share.
struct EtcdOptions {
  std::vector<std::string> members;  // "HOST:PORT"; empty: none
  cluster::TlsFiles tls;
};

struct SchedulerProcessOptions {
  ClusterOptions cluster;
  scheduler::SchedulerOptions scheduler;
  scheduler::PolicyOptions policies;
  EtcdOptions etcd;  // none: no other scheduler
  std::string election_key = "/aril/leader";
  int64_t lease_seconds = 5;
};
Status RunScheduler(const SchedulerProcessOptions& options, const Clock& clock);

struct RunnerProcessOptions {
  ClusterOptions cluster;
  ServeOptions serve;      // the model, the adapters and the engine
  size_t max_live = 1024;  // attempts, running or waiting
};
Status RunRunner(const RunnerProcessOptions& options, const Clock& clock);

struct GatewayProcessOptions {
  ClusterOptions cluster;
  ServeOptions serve;  // the model's and the adapters' names, and HTTP
  EtcdOptions etcd;    // none: adapters do not change
  std::string etcd_prefix = "/aril/names/";
};
Status RunGateway(const GatewayProcessOptions& options, const Clock& clock);

}  // namespace aril

#endif  // ARIL_APPS_CLUSTER_PROCESSES_H_
