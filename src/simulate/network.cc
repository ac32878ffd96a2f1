#include "simulate/network.h"

#include <algorithm>

namespace aril::simulate {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Duration kMinDelay = microseconds(50);
constexpr Duration kMaxDelay = microseconds(800);
// A reset is seen at once, nearly.
constexpr Duration kMaxDetection = milliseconds(80);
constexpr Duration kMaxBackoff = milliseconds(900);

}  // namespace

void Network::Link(int a, int b) {
  links_.try_emplace(std::minmax(a, b));
  TryConnect(a, b);
}

void Network::TryConnect(int a, int b) {
  State& link = GetMutable(a, b);
  if (link.is_up) return;
  const TimePoint earliest = std::max(link.blocked_until, link.noticed_at);
  if (loop_.now() < earliest) {
    loop_.At(earliest, [this, a, b] { TryConnect(a, b); });
    return;
  }
  // Whoever starts again connects itself (BreakAll's end).
  if (!handlers_.is_alive(a) || !handlers_.is_alive(b)) return;
  link.is_up = true;
  link.id = delivery::ConnectionId(next_connection_++);
  const delivery::ConnectionId id = link.id;
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    handlers_.run(self, [this, node = self, other = peer, id] {
      if (IsUp(node, other) && Connection(node, other) == id) {
        handlers_.on_connected(node, other, id);
      }
    });
  }
}

void Network::Send(int from, int to, std::function<void()> deliver) {
  State& link = GetMutable(from, to);
  if (!link.is_up) return;
  const Duration extra = loop_.now() < link.slow_until ? link.extra : Duration(0);
  TimePoint& last = link.last[from < to ? 0 : 1];
  const TimePoint at = std::max(last, loop_.now() + random_.Time(kMinDelay, kMaxDelay) + extra);
  last = at;
  const auto arrive = [this, from, to, id = link.id, generation = link.generation,
                       deliver = std::move(deliver)] {
    // Checked once more when the node gets to it.
    handlers_.run(to, [this, from, to, id, generation, deliver] {
      const State& now = Get(from, to);
      if (now.is_up && now.id == id && now.generation == generation) deliver();
    });
  };
  const bool is_twice = loop_.now() < link.duplicate_until && random_.Chance(0.5);
  if (is_twice) loop_.At(at + random_.Time(Duration(0), milliseconds(300)), arrive);
  loop_.At(at, arrive);
}

void Network::BreakAll(int node, TimePoint until) {
  for (const auto& [pair, link] : links_) {
    if (pair.first == node || pair.second == node) Break(pair.first, pair.second, until);
  }
}

void Network::Break(int a, int b, TimePoint until) {
  State& link = GetMutable(a, b);
  link.blocked_until = std::max(link.blocked_until, until);
  const TimePoint again = std::max(link.blocked_until, loop_.now() + kMaxDetection) +
                          random_.Time(Duration(1), kMaxBackoff);
  loop_.At(again, [this, a, b] { TryConnect(a, b); });
  if (!link.is_up) return;
  link.is_up = false;
  const delivery::ConnectionId id = link.id;
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    const TimePoint noticed = loop_.now() + random_.Time(Duration(1), kMaxDetection);
    link.noticed_at = std::max(link.noticed_at, noticed);
    loop_.At(noticed, [this, node = self, other = peer, id] {
      handlers_.run(node, [this, node, other, id] { handlers_.on_broken(node, other, id); });
    });
  }
}

void Network::Slow(int a, int b, Duration extra, TimePoint until) {
  State& link = GetMutable(a, b);
  link.extra = extra;
  link.slow_until = until;
}

}  // namespace aril::simulate
