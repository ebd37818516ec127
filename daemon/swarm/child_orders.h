// What the swarm's process is still to be told, in order. Kept as small notes and put into packets when there is room for
// them, so that a slow process costs little memory; what belongs together goes together (chunks of one bundle).
//
// A bundle is told in several packets: its description with the chunks that are there at that moment and its file's
// descriptor, then its roots, which may be 2 MiB.
//
// Threads: one. Bundle files are kept until their packets have left.
#pragma once

#include <deque>
#include <memory>
#include <variant>
#include <vector>

#include "daemon/swarm/child_process.h"
#include "daemon/swarm/swarm_libtorrent.h"

namespace p2pw::wire {
class SwarmOrder;
}

namespace p2pw {

class ChildOrders {
 public:
  static constexpr std::size_t kMost = 1u << 16;      // that wait
  static constexpr std::size_t kRootsAtOnce = 1024;   // 32 KiB
  static constexpr std::size_t kPeersAtOnce = 256;
  static constexpr std::size_t kChunksAtOnce = 4096;

  void start(const SwarmOptions& options) { orders_.emplace_back(Start{options}); }
  void add(std::uint32_t number, const BundleId& id, std::shared_ptr<BundleFile> file, SwarmGroups group);
  void offer(std::uint32_t number, ChunkIndex chunk);
  void remove(std::uint32_t number) { orders_.emplace_back(Remove{number}); }
  void members(const std::vector<SwarmPeer>& members);
  void drop(const NodeKey& member) { orders_.emplace_back(Drop{member}); }

  std::size_t size() const { return orders_.size(); }
  // As many as the socket takes; done: all.
  PacketState send(int socket);

 private:
  struct Start {
    SwarmOptions options;
  };
  struct Add {
    std::uint32_t number;
    BundleId id;
    std::shared_ptr<BundleFile> file;
    SwarmGroups group;
  };
  struct Roots {
    std::shared_ptr<BundleFile> file;
    std::size_t first;
  };
  struct Offer {
    std::uint32_t number;
    std::vector<std::uint32_t> chunks;
  };
  struct Remove {
    std::uint32_t number;
  };
  struct Members {
    std::vector<SwarmPeer> peers;
    bool more;
  };
  struct Drop {
    NodeKey member;
  };
  using Order = std::variant<Start, Add, Roots, Offer, Remove, Members, Drop>;

  static void write(const Start& start, wire::SwarmOrder& message);
  static void write(const Add& add, wire::SwarmOrder& message);
  static void write(const Roots& roots, wire::SwarmOrder& message);
  static void write(const Offer& offer, wire::SwarmOrder& message);
  static void write(const Remove& remove, wire::SwarmOrder& message);
  static void write(const Members& members, wire::SwarmOrder& message);
  static void write(const Drop& drop, wire::SwarmOrder& message);

  std::deque<Order> orders_;
};

}  // namespace p2pw
