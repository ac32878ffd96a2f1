// The flags that choose a scheduler's policies.

#ifndef ARIL_APPS_POLICY_FLAGS_H_
#define ARIL_APPS_POLICY_FLAGS_H_

#include <vector>

#include "apps/flags.h"
#include "scheduler/policies.h"

namespace aril {

// `options` must outlive `app`.
void AddPolicyFlags(CLI::App& app, scheduler::PolicyOptions& options);

// Those that were added.
std::vector<const CLI::Option*> PolicyFlags(const CLI::App& app);

}  // namespace aril

#endif  // ARIL_APPS_POLICY_FLAGS_H_
