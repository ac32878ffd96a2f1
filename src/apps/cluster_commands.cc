// The flags of `aril scheduler`, `aril runner` and `aril gateway`.

#include <memory>

#include "apps/cluster_processes.h"
#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/policy_flags.h"
#include "apps/serve_flags.h"

namespace aril {
namespace {

void AddTlsFlags(CLI::App& app, ClusterOptions& options) {
  app.option_defaults()->group("Cluster");
  AddFlag(app, "--cluster-cert", options.tls.cert_file,
          "This process' certificate (PEM), for links to others [none: loopback only]")
      ->type_name("FILE");
  AddFlag(app, "--cluster-key", options.tls.key_file, "The certificate's private key (PEM)")
      ->type_name("FILE");
  AddFlag(app, "--cluster-ca", options.tls.ca_file,
          "The authority that signs the cluster's certificates (PEM)")
      ->type_name("FILE");
  AddSwitch(
      app, "--cluster-insecure", options.allows_insecure,
      "Links to other machines, etcd's too, without TLS: for networks that nobody else can reach");
}

void AddSchedulerFlag(CLI::App& app, ClusterOptions& options) {
  app.option_defaults()->group("Cluster");
  AddFlag(app, "--scheduler", options.schedulers, "Where the cluster's schedulers listen")
      ->delimiter(',')
      ->type_name("HOST:PORT,...");
}

void AddListenFlag(CLI::App& app, ClusterOptions& options) {
  app.option_defaults()->group("Cluster");
  AddFlag(app, "--listen", options.listen, "Address for links from other processes")
      ->type_name("HOST:PORT");
}

void AddEtcdFlags(CLI::App& app, EtcdOptions& options, const std::string& what_for) {
  app.option_defaults()->group("Cluster");
  AddFlag(app, "--etcd", options.members, what_for)->delimiter(',')->type_name("HOST:PORT,...");
  AddFlag(app, "--etcd-cert", options.tls.cert_file, "Certificate for etcd (PEM)")
      ->type_name("FILE");
  AddFlag(app, "--etcd-key", options.tls.key_file, "The certificate's private key (PEM)")
      ->type_name("FILE");
  AddFlag(app, "--etcd-ca", options.tls.ca_file,
          "The authority that signs etcd's certificate (PEM)")
      ->type_name("FILE");
}

void AddStatusFlag(CLI::App& app, ClusterOptions& options) {
  app.option_defaults()->group("Cluster");
  AddFlag(app, "--status-listen", options.status_listen,
          "Address for /health, /ready and /metrics over HTTP, without TLS or keys [none]")
      ->type_name("HOST:PORT");
}

}  // namespace

void AddSchedulerCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("scheduler", "Place a cluster's requests on its runners");
  auto options = std::make_shared<SchedulerProcessOptions>();
  options->cluster.listen = "127.0.0.1:7400";
  AddListenFlag(*command, options->cluster);
  AddStatusFlag(*command, options->cluster);
  AddTlsFlags(*command, options->cluster);
  AddEtcdFlags(*command, options->etcd,
               "Members of the etcd that elects one of several schedulers [none: this one is "
               "alone]");
  AddFlag(*command, "--election-key", options->election_key,
          "etcd's key of the leader: one for each cluster");
  AddFlag(*command, "--lease-seconds", options->lease_seconds,
          "After which a leader that is not heard of is replaced")
      ->check(CLI::Range(2, 600));
  AddPolicyFlags(*command, options->policies);
  AddFlag(
      *command, "--flat-batch", options->scheduler.flat_batch,
      "Sequences up to which a step costs about the same: lightly loaded runners are emptied into "
      "others up to it; 0: never")
      ->check(CLI::NonNegativeNumber);
  AddFlag(
      *command, "--drain-margin", options->scheduler.drain_margin,
      "Seats below --flat-batch that stay free when a runner has been emptied, so that the next "
      "requests do not open it again at once")
      ->check(CLI::NonNegativeNumber);
  AddFlag(*command, "--max-backlog-tokens", options->scheduler.max_backlog_tokens,
          "Tokens that a runner may have to compute before their sequences' first ones; beyond it, "
          "requests go to others, idle ones included, or wait")
      ->check(CLI::NonNegativeNumber);
  AddOnOffSwitch(*command, "--prefix-affinity", options->scheduler.prefers_prefixes,
                 "Send a request to the runner that has computed most of its prompt, if there is "
                 "room");
  command->callback([options] { ExitUnlessOk("scheduler", RunScheduler(*options, RealClock())); });
}

void AddRunnerCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("runner", "Run a cluster's requests on this machine");
  auto flags = std::make_shared<ServeFlags>();
  auto options = std::make_shared<RunnerProcessOptions>();
  options->cluster.listen = "127.0.0.1:0";
  AddSchedulerFlag(*command, options->cluster);
  AddListenFlag(*command, options->cluster);
  AddFlag(*command, "--advertise", options->cluster.advertise,
          "Where gateways find this runner [where it listens]")
      ->type_name("HOST:PORT");
  AddStatusFlag(*command, options->cluster);
  AddTlsFlags(*command, options->cluster);
  AddModelFlags(*command, *flags);
  AddAdapterSourceFlags(*command, *flags,
                        {.roots = "Folders beneath which the runner finds adapters that clients "
                                  "load at run time, as the gateways do",
                         .state_dir = "Folder for adapters that the runner fetches; what was "
                                      "there is removed at the next start"});
  AddEngineFlags(*command, *flags);
  AddRowShareFlags(*command, flags->options.runner);
  AddFlag(*command, "--max-live", options->max_live, "Most sequences that run or wait here")
      ->check(AtLeastOne());
  AddDurationFlag(*command, "--drain-timeout", flags->options.drain_timeout, "30s",
                  "How long sequences may take to move or to end after SIGTERM");
  command->callback([flags, options] {
    auto serve = ResolveServeOptions(*flags);
    ThrowUsageUnlessOk(serve.status());
    options->serve = *std::move(serve);
    ExitUnlessOk("runner", RunRunner(*options, RealClock()));
  });
}

void AddGatewayCommand(CLI::App& app) {
  CLI::App* command = app.add_subcommand("gateway", "Serve a cluster's models over HTTP");
  auto flags = std::make_shared<ServeFlags>();
  auto options = std::make_shared<GatewayProcessOptions>();
  AddSchedulerFlag(*command, options->cluster);
  AddTlsFlags(*command, options->cluster);
  AddEtcdFlags(*command, options->etcd,
               "Members of the etcd in which the gateways keep the names of adapters that clients "
               "load [none: they may load none]");
  AddFlag(*command, "--etcd-prefix", options->etcd_prefix,
          "What etcd's keys of the names begin with: one for each cluster");
  AddModelFlags(*command, *flags);
  AddNameFlags(*command, *flags);
  AddAdapterSourceFlags(*command, *flags,
                        {.roots = "Folders beneath which clients may load adapters at run time; "
                                  "the runners have the same [none: they may not]",
                         .state_dir = "Folder in which adapters that are fetched are verified"});
  AddContextFlag(*command, *flags);
  AddHttpFlags(*command, *flags);
  command->callback([flags, options] {
    auto serve = ResolveServeOptions(*flags);
    ThrowUsageUnlessOk(serve.status());
    options->serve = *std::move(serve);
    ExitUnlessOk("gateway", RunGateway(*options, RealClock()));
  });
}

}  // namespace aril
