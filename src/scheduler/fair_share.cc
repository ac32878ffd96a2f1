#include "scheduler/fair_share.h"

#include <algorithm>

#include "base/check.h"

namespace aril::scheduler {

void FairShare::OnNew(int32_t tenant, const std::string& name) {
  const auto weight = options_.weights.find(name);
  if (weight == options_.weights.end()) return;
  CHECK(weight->second > 0);
  tenants_[tenant].weight = weight->second;
}

void FairShare::OnBacklogged(int32_t group) {
  Tenant& tenant = tenants_[group];
  CHECK(!tenant.is_backlogged);
  if (!backlogged_.empty()) {
    tenant.counter = std::max(tenant.counter, backlogged_.begin()->first);
  } else if (last_to_leave_) {
    tenant.counter = std::max(tenant.counter, tenants_[*last_to_leave_].counter);
  }
  tenant.is_backlogged = true;
  backlogged_.emplace(tenant.counter, group);
}

void FairShare::OnEmpty(int32_t group) {
  Tenant& tenant = tenants_[group];
  CHECK_EQ(backlogged_.erase({tenant.counter, group}), size_t{1});
  tenant.is_backlogged = false;
  last_to_leave_ = group;
}

void FairShare::OnPrompt(int32_t tenant, int64_t num_tokens) {
  Charge(tenant, options_.prompt_weight * static_cast<double>(num_tokens));
}

void FairShare::OnOutput(int32_t tenant, int64_t num_tokens) {
  Charge(tenant, options_.output_weight * static_cast<double>(num_tokens));
}

void FairShare::Charge(int32_t id, double service) {
  Tenant& tenant = tenants_[id];
  if (tenant.is_backlogged) backlogged_.erase({tenant.counter, id});
  tenant.counter += service / tenant.weight;
  if (tenant.is_backlogged) backlogged_.emplace(tenant.counter, id);
}

std::vector<int32_t> FairShare::Turns(size_t limit) const {
  std::vector<int32_t> turns;
  for (const auto& [counter, tenant] : backlogged_) {
    if (turns.size() == limit) break;
    turns.push_back(tenant);
  }
  return turns;
}

double FairShare::counter(int32_t tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.counter;
}

}  // namespace aril::scheduler
