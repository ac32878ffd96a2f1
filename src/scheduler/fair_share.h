// Whose turn it is among tenants.

#ifndef ARIL_SCHEDULER_FAIR_SHARE_H_
#define ARIL_SCHEDULER_FAIR_SHARE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace aril::scheduler {

// Tenants, numbered by whoever uses this, share the queue by groups, each with an order of its own
// inside. Not thread-safe.
class TenantPolicy {
 public:
  virtual ~TenantPolicy() = default;
  // Before anything else of this tenant.
  virtual void OnNew(int32_t tenant, const std::string& name) = 0;
  virtual int32_t Group(int32_t tenant) const = 0;
  // The group's first sequence begins to wait; its last one does not wait any more.
  virtual void OnBacklogged(int32_t group) = 0;
  virtual void OnEmpty(int32_t group) = 0;
  // Service given: a prompt on being placed, output as it comes. Unlike the above, by tenant.
  virtual void OnPrompt(int32_t tenant, int64_t num_tokens) = 0;
  virtual void OnOutput(int32_t tenant, int64_t num_tokens) = 0;
  // Up to `limit` of the groups with waiting sequences, in the order of their turns.
  virtual std::vector<int32_t> Turns(size_t limit) const = 0;
};

// All tenants in one line.
class OneLine final : public TenantPolicy {
 public:
  void OnNew(int32_t, const std::string&) override {}
  int32_t Group(int32_t) const override { return 0; }
  void OnBacklogged(int32_t) override { is_backlogged_ = true; }
  void OnEmpty(int32_t) override { is_backlogged_ = false; }
  void OnPrompt(int32_t, int64_t) override {}
  void OnOutput(int32_t, int64_t) override {}
  std::vector<int32_t> Turns(size_t) const override {
    return is_backlogged_ ? std::vector<int32_t>{0} : std::vector<int32_t>{};
  }

 private:
  bool is_backlogged_ = false;
};

struct FairShareOptions {
  double prompt_weight = 1;  // of a token of a prompt (w_p)
  double output_weight = 2;  // of a token of output (w_q)
  // Of tenants, by name, above 0; 1 for the others. Service counts 1/weight for a tenant.
  std::map<std::string, double> weights;
};

// Virtual token counters (Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024,
// algorithm 2): the tenant that has been served least goes first. A tenant that comes back is
// lifted to the least counter of those who wait, so that nobody saves service up by staying away.
// Theorem 4.4: as long as two tenants both wait, what they have been served differs by at most
// 2 max(w_p L_input, w_q M), with L_input the longest prompt and M the tokens that run at once. The
// bound supposes that whose turn it is can be placed: one who fits nowhere is passed over.
class FairShare final : public TenantPolicy {
 public:
  explicit FairShare(FairShareOptions options) : options_(std::move(options)) {}

  void OnNew(int32_t tenant, const std::string& name) override;
  int32_t Group(int32_t tenant) const override { return tenant; }
  void OnBacklogged(int32_t group) override;
  void OnEmpty(int32_t group) override;
  void OnPrompt(int32_t tenant, int64_t num_tokens) override;
  void OnOutput(int32_t tenant, int64_t num_tokens) override;
  std::vector<int32_t> Turns(size_t limit) const override;

  double counter(int32_t tenant) const;

 private:
  struct Tenant {
    double counter = 0;
    double weight = 1;
    bool is_backlogged = false;
  };

  void Charge(int32_t tenant, double service);

  const FairShareOptions options_;
  std::unordered_map<int32_t, Tenant> tenants_;
  std::set<std::pair<double, int32_t>> backlogged_;
  std::optional<int32_t> last_to_leave_;
};

}  // namespace aril::scheduler

#endif  // ARIL_SCHEDULER_FAIR_SHARE_H_
