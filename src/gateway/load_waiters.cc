#include "gateway/load_waiters.h"

#include <utility>

namespace aril::gateway {

std::optional<LoadWaiters::Ticket> LoadWaiters::Wait(AdapterLoads& loads, const std::string& tenant,
                                                     const std::string& name, Duration at_most,
                                                     std::function<void(Outcome)> then) {
  if (waiters_.size() >= max_waiting_ || !post_after_) return std::nullopt;
  const Ticket ticket = next_ticket_++;
  const Key key = {tenant, name};
  waiters_.emplace(ticket, Waiter{.key = key, .then = std::move(then)});
  const auto [tickets, is_first] = by_load_.try_emplace(key);
  tickets->second.insert(ticket);
  const auto tell = [this, key] { post_([this, key] { OnOver(key); }); };
  // One that has ended meanwhile is over.
  if (is_first && !loads.WhenOver(tenant, name, tell)) tell();
  post_after_(at_most, [this, ticket] { End(ticket, Outcome::kTimeIsUp); });
  return ticket;
}

void LoadWaiters::Cancel(Ticket ticket) {
  const auto found = waiters_.find(ticket);
  if (found == waiters_.end()) return;
  const auto tickets = by_load_.find(found->second.key);
  if (tickets != by_load_.end()) tickets->second.erase(ticket);
  waiters_.erase(found);
}

void LoadWaiters::End(Ticket ticket, Outcome outcome) {
  const auto found = waiters_.find(ticket);
  if (found == waiters_.end()) return;
  const auto then = std::move(found->second.then);
  Cancel(ticket);
  then(outcome);
}

void LoadWaiters::OnOver(const Key& key) {
  const auto found = by_load_.find(key);
  if (found == by_load_.end()) return;
  const std::set<Ticket> tickets = std::move(found->second);
  by_load_.erase(found);
  for (const Ticket ticket : tickets) {
    const auto waiter = waiters_.find(ticket);
    if (waiter == waiters_.end()) continue;
    const auto then = std::move(waiter->second.then);
    waiters_.erase(waiter);
    then(Outcome::kOver);
  }
}

void LoadWaiters::EndAll(Outcome outcome) {
  while (!waiters_.empty()) End(waiters_.begin()->first, outcome);
}

}  // namespace aril::gateway
