// The flags that choose a scheduler's policies, and what a runner does of them.

#ifndef ARIL_APPS_POLICY_FLAGS_H_
#define ARIL_APPS_POLICY_FLAGS_H_

#include <vector>

#include "apps/flags.h"
#include "runner/local_runner.h"
#include "scheduler/policies.h"

namespace aril {

// `options` must outlive `app`.
void AddPolicyFlags(CLI::App& app, scheduler::PolicyOptions& options);

// Of a runner: in which step whose prompts are computed. `options` must outlive `app`.
void AddRowShareFlags(CLI::App& app, LocalRunnerOptions& options);

// Those that AddPolicyFlags added.
std::vector<const CLI::Option*> PolicyFlags(const CLI::App& app);

}  // namespace aril

#endif  // ARIL_APPS_POLICY_FLAGS_H_
