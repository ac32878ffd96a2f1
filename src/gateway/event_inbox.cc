#include "gateway/event_inbox.h"

#include <iterator>
#include <utility>

namespace aril::gateway {

void EventInbox::OnStep(const wire::StepStats& stats, std::vector<wire::TokenEvent> events) {
  metrics_.OnStep(stats);
  if (events.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    const bool posted = !events_.empty();
    events_.insert(events_.end(), std::make_move_iterator(events.begin()),
                   std::make_move_iterator(events.end()));
    if (posted) return;
  }
  post_([this] { Flush(); });
}

void EventInbox::Flush() {
  std::vector<wire::TokenEvent> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
  }
  deliver_(std::move(events));
}

}  // namespace aril::gateway
