#include "apps/policy_flags.h"

#include <map>
#include <string>
#include <vector>

#include "apps/bench_numbers.h"
#include "base/units.h"

namespace aril {
namespace {

const std::map<std::string, scheduler::QueueOrder> kOrders = {
    {"fcfs", scheduler::QueueOrder::kFirstComeFirstServed},
    {"lcfs", scheduler::QueueOrder::kLastComeFirstServed},
    {"newest-when-overloaded", scheduler::QueueOrder::kNewestWhenOverloaded}};

// "acme=4".
void SetWeight(const std::string& text, std::map<std::string, double>& weights) {
  const size_t equals = text.rfind('=');
  double weight = 0;
  if (equals == 0 || equals == std::string::npos ||
      !ParseNumber(std::string_view(text).substr(equals + 1), &weight) || weight < 0.001 ||
      weight > 1000) {
    throw CLI::ValidationError(
        "--tenant-weight", "`" + text + "`: expected TENANT=WEIGHT with a weight of 0.001 to 1000");
  }
  weights[text.substr(0, equals)] = weight;
}

constexpr const char* kGroup = "Policy";

void AddFairShare(CLI::App& app, bool& is_fair, std::map<std::string, double>& weights,
                  const std::string& help) {
  CLI::Option* const fair = AddSwitch(app, "--fair-share", is_fair, help);
  app.add_option_function<std::vector<std::string>>(
         "--tenant-weight",
         [&weights](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) SetWeight(text, weights);
         },
         "Tenants that are to be served so many times as much as others, with --fair-share")
      ->envname(EnvironmentName(app, "--tenant-weight"))
      ->delimiter(',')
      ->type_name("TENANT=WEIGHT,...")
      ->needs(fair);
}

}  // namespace

std::vector<const CLI::Option*> PolicyFlags(const CLI::App& app) {
  return app.get_options([](const CLI::Option* flag) { return flag->get_group() == kGroup; });
}

void AddPolicyFlags(CLI::App& app, scheduler::PolicyOptions& options) {
  app.option_defaults()->group(kGroup);
  AddFlag(app, "--max-waiting", options.max_waiting,
          "Most sequences that may wait before a request that comes; with more it is answered with "
          "503")
      ->check(AtLeastOne());
  app.add_option_function<std::string>(
         "--order", [&options](const std::string& name) { options.order = kOrders.at(name); },
         "Who is placed first: fcfs, the first to come; lcfs, the last to come; "
         "newest-when-overloaded, the last to come while more come than can be placed")
      ->envname(EnvironmentName(app, "--order"))
      ->check(CLI::IsMember(kOrders))
      ->default_str("fcfs");
  CLI::Option* const slo = AddDurationFlag(
      app, "--slo", options.slo, "Within which a request should have its first token [none]");
  slo->check([](const std::string& text) {
    const auto duration = ParseDuration(text);
    return duration.ok() && *duration <= Duration(0) ? "it must be above 0" : "";
  });
  AddSwitch(app, "--early-abort", options.aborts_early,
            "Answer 503 to what has waited too long for its first token to come within --slo")
      ->needs(slo);
  AddSwitch(app, "--bound-by-slo", options.bounds_by_service,
            "Answer 503 at once to what cannot be placed within --slo at the present rate")
      ->needs(slo);
  AddFairShare(app, options.is_fair, options.tenant_weights,
               "Tenants take turns: who has been served the fewest tokens is next");
  app.add_option("--preferred-adapters", options.preferred_adapters.number,
                 "Different adapters on a runner, beyond which requests for others wait while "
                 "anybody else can be placed [no preference]")
      ->envname(EnvironmentName(app, "--preferred-adapters"))
      ->check(AtLeastOne());
  app.add_option(
         "--preferred-adapter-share", options.preferred_adapters.pool_share,
         "Share of a runner's pool that the different adapters in use there may take; beyond "
         "it as above, so that large ranks are spread [no preference]")
      ->envname(EnvironmentName(app, "--preferred-adapter-share"))
      ->type_name("FRACTION")
      ->check(CLI::Range(0.0, 1.0));
}

void AddRowShareFlags(CLI::App& app, LocalRunnerOptions& options) {
  AddFairShare(app, options.shares_rows, options.tenant_weights,
               "Tenants share what a step computes of prompts, rather than stand in one line");
}

}  // namespace aril
