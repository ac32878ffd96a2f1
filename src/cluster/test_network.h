// Links between nodes of one test: frames are delivered when the test says so, in order.

#ifndef ARIL_CLUSTER_TEST_NETWORK_H_
#define ARIL_CLUSTER_TEST_NETWORK_H_

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cluster/links.h"

namespace aril::cluster {

// Single-threaded, on a clock of its own.
class TestNetwork {
 public:
  // What a node dials with. It listens at `address`, unless that is empty.
  Links& LinksOf(const std::string& address) {
    ports_.push_back(std::make_unique<Port>(*this, address));
    return *ports_.back();
  }
  // The node behind the links that LinksOf has given; nullptr: it has died, and its links break.
  void SetNode(Links& links, Node* node) {
    Port& port = static_cast<Port&>(links);
    port.node = node;
    if (node != nullptr) return;
    port.address.clear();
    for (const LinkId link : LinksAt(port)) Break(link, Unavailable("its process has died"));
  }
  // Breaks all links between two.
  void Cut(Links& a, Links& b) {
    for (const LinkId link : LinksAt(static_cast<Port&>(a))) {
      if (ends_.at(ends_.at(link).peer).port == &b) Break(link, Unavailable("cut"));
    }
  }

  // Delivers until nothing is under way.
  void Pump() {
    while (!queue_.empty()) {
      auto work = std::move(queue_.front());
      queue_.pop_front();
      work();
    }
  }
  // Lets time pass in ticks of 100 ms.
  void Run(Duration length) {
    for (const TimePoint end = now_ + length; now_ < end;) {
      now_ += std::chrono::milliseconds(100);
      for (const auto& port : ports_) {
        if (port->node != nullptr) port->node->OnTick(now_);
      }
      Pump();
    }
  }
  TimePoint now() const { return now_; }

  // Looks at each frame that is delivered; may be empty.
  std::function<void(const Frame&)> on_frame;
  // Hears what each end of a broken link is told; may be empty.
  std::function<void(const Status&)> on_broken;

 private:
  struct Port final : public Links {
    Port(TestNetwork& n, std::string a) : network(n), address(std::move(a)) {}
    LinkId Dial(const std::string& to) override { return network.Dial(*this, to); }
    void Send(LinkId link, const Frame& frame) override { network.Send(link, frame); }
    void Close(LinkId link, const Status& why) override { network.Break(link, why); }

    TestNetwork& network;
    std::string address;
    Node* node = nullptr;
  };
  struct End {
    Port* port = nullptr;
    LinkId peer;  // the other end of the link
  };

  LinkId Dial(Port& from, const std::string& to) {
    const LinkId link(next_link_++);
    const auto port = std::find_if(ports_.begin(), ports_.end(), [&](const auto& p) {
      return p->node != nullptr && p->address == to;
    });
    if (port == ports_.end()) {
      ends_[link] = {&from, LinkId()};
      Break(link, Unavailable("nobody listens at " + to));
      return link;
    }
    const LinkId other(next_link_++);
    ends_[link] = {&from, other};
    ends_[other] = {port->get(), link};
    Tell(other, [this, other](Node& node) { node.OnAccepted(other, now_); });
    return link;
  }

  void Send(LinkId link, const Frame& frame) {
    const auto end = ends_.find(link);
    if (end == ends_.end()) return;
    const LinkId to = end->second.peer;
    Tell(to, [this, to, frame](Node& node) {
      if (on_frame) on_frame(frame);
      node.OnFrame(to, frame, now_);
    });
  }

  void Break(LinkId link, const Status& why) {
    const auto end = ends_.find(link);
    if (end == ends_.end()) return;
    const LinkId other = end->second.peer;
    for (const LinkId gone : {link, other}) {
      if (!ends_.contains(gone)) continue;
      Tell(gone, [this, gone, why](Node& node) {
        ends_.erase(gone);
        if (on_broken) on_broken(why);
        node.OnBroken(gone, why, now_);
      });
    }
  }

  void Tell(LinkId link, std::function<void(Node&)> what) {
    Port* const port = ends_.contains(link) ? ends_.at(link).port : nullptr;
    if (port == nullptr) return;
    queue_.push_back([this, link, port, what = std::move(what)] {
      if (!ends_.contains(link)) return;
      if (port->node == nullptr) {
        ends_.erase(link);
      } else {
        what(*port->node);
      }
    });
  }

  std::vector<LinkId> LinksAt(Port& port) const {
    std::vector<LinkId> links;
    for (const auto& [link, end] : ends_) {
      if (end.port == &port) links.push_back(link);
    }
    return links;
  }

  TimePoint now_{std::chrono::hours(1)};
  std::vector<std::unique_ptr<Port>> ports_;
  std::map<LinkId, End> ends_;
  std::deque<std::function<void()>> queue_;
  int64_t next_link_ = 1;
};

}  // namespace aril::cluster

#endif  // ARIL_CLUSTER_TEST_NETWORK_H_
