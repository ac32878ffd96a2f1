// The flags that choose a scheduler's policies.

#ifndef ARIL_APPS_POLICY_FLAGS_H_
#define ARIL_APPS_POLICY_FLAGS_H_

#include "apps/flags.h"
#include "scheduler/policies.h"

namespace aril {

// `options` must outlive `app`.
void AddPolicyFlags(CLI::App& app, scheduler::PolicyOptions& options);

}  // namespace aril

#endif  // ARIL_APPS_POLICY_FLAGS_H_
