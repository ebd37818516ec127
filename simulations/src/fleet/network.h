// A network as flows over links. A link has a rate; a flow is a queue of items (chunks) on a path of links. In each short
// step the flows that have something to send share the links max-min fairly (progressive filling; Bertsekas and Gallager,
// "Data Networks", 6.5.2), and no flow gets more than what it has queued, so that no rate is lost to one that trickles.
//
// Rates are bytes per second of payload. A path says with what weight a flow loads a link: 1 is one byte for each byte
// moved. Pure and deterministic; time is the caller's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace p2pw::fleet {

class Network {
 public:
  using Link = std::uint32_t;
  using Flow = std::uint32_t;
  struct Load {
    Link link;
    double weight = 1;
  };
  struct Item {
    std::uint64_t tag;
    double bytes;  // still to go
    double size;
  };
  struct Done {
    double at;  // seconds into the step
    Flow flow;
    std::uint64_t tag;
  };

  Link add_link(double bytes_per_second) {
    links_.push_back({bytes_per_second});
    return static_cast<Link>(links_.size() - 1);
  }
  Flow add_flow(std::vector<Load> path) {
    flows_.push_back({std::move(path), {}, 0, 0, false});
    return static_cast<Flow>(flows_.size() - 1);
  }
  void push(Flow flow, std::uint64_t tag, double bytes);
  // Takes away what is queued and has not begun. Returns how many bytes that were.
  double cut(Flow flow, const std::function<bool(std::uint64_t tag)>& unwanted);

  bool idle() const { return active_.empty(); }
  // Moves everything on by `seconds`; what finishes is appended to `done`, in order of time.
  void step(double seconds, std::vector<Done>& done);
  // The fair rates of all flows that have something queued, without the bound by what is queued.
  void allocate();
  double rate(Flow flow) const { return flows_[flow].rate; }
  // Moves on until the next item is finished, at constant rates; returns the seconds that took.
  double finish_next(std::vector<Done>& done);

 private:
  struct LinkState {
    double rate;
    double left = 0, weight = 0;  // while allocating
    bool in_use = false;
  };
  struct FlowState {
    std::vector<Load> path;
    std::deque<Item> queue;
    double queued = 0;
    double rate = 0;
    bool fixed = false;  // while allocating
  };

  void share(double seconds);  // 0: no bound by what is queued
  void fix(FlowState& flow, double rate);
  void move(double seconds, std::vector<Done>& done);

  std::vector<LinkState> links_;
  std::vector<FlowState> flows_;
  std::vector<Flow> active_;
  std::vector<Link> used_;
};

}  // namespace p2pw::fleet
