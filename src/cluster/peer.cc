#include "cluster/peer.h"

#include "base/strings.h"

namespace aril::cluster {

SequenceId MakeSequenceId(GatewayId gateway, uint32_t number) {
  return SequenceId(int64_t{gateway.value()} << 32 | number);
}

GatewayId GatewayOf(SequenceId sequence) {
  return GatewayId(static_cast<int32_t>(sequence.value() >> 32));
}

Status CheckPeer(const Hello& ours, const Hello& theirs, Role role) {
  RETURN_IF_ERROR(CheckCompatible(theirs));
  if (theirs.role != role) {
    return FailedPrecondition(StrCat("expected a ", NameOf(role), " there, and it is a ",
                                     NameOf(theirs.role), ": check the addresses"));
  }
  if (role == Role::kScheduler) return OkStatus();
  const std::string difference = DescribeDifference(ours.deployment, theirs.deployment);
  if (difference.empty()) return OkStatus();
  return FailedPrecondition(StrCat("the ", NameOf(ours.role), " and the ", NameOf(theirs.role),
                                   " serve different things: ", difference,
                                   "; start all gateways and runners of a cluster with the same "
                                   "model and adapters, in the same order"));
}

void Dialler::Remove(const std::string& address) {
  const auto target = targets_.find(address);
  if (target == targets_.end()) return;
  target->second.is_wanted = false;
  if (!target->second.link) targets_.erase(target);
}

bool Dialler::Has(const std::string& address) const {
  const auto target = targets_.find(address);
  return target != targets_.end() && target->second.is_wanted;
}

void Dialler::OnTick(const Hello& hello, TimePoint now) {
  std::vector<LinkId> silent;
  for (auto& [address, target] : targets_) {
    if (target.link) {
      if (!target.has_hello && now - target.since >= kHelloTimeout) silent.push_back(*target.link);
    } else if (now >= target.since) {
      const LinkId link = links_.Dial(address);
      target = {.is_wanted = true, .link = link, .has_hello = false, .since = now};
      addresses_[link] = address;
      links_.Send(link, hello);
    }
  }
  for (const LinkId link : silent) {
    links_.Close(link, Unavailable(StrCat(*Find(link), " has not said Hello in time")));
    OnBroken(link, now);
  }
}

void Dialler::OnHello(LinkId link) {
  const std::string* const address = Find(link);
  if (address == nullptr) return;
  const auto target = targets_.find(*address);
  if (target != targets_.end() && target->second.link == link) target->second.has_hello = true;
}

const std::string* Dialler::Find(LinkId link) const {
  const auto found = addresses_.find(link);
  return found == addresses_.end() ? nullptr : &found->second;
}

void Dialler::OnBroken(LinkId link, TimePoint now) {
  const auto found = addresses_.find(link);
  if (found == addresses_.end()) return;
  const auto target = targets_.find(found->second);
  if (target != targets_.end() && target->second.link == link) {
    const bool is_wanted = target->second.is_wanted;
    target->second = {.is_wanted = is_wanted, .since = now + retry_after_};
    if (!is_wanted) targets_.erase(target);
  }
  addresses_.erase(found);
}

}  // namespace aril::cluster
