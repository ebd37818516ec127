// Swarms on loopback addresses of their own, all in the test's process or each in one of its own, with the test's thread
// as everybody's control thread.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "chunker/bundle_file.h"
#include "daemon/swarm/swarm_child.h"
#include "tests/support/temp_dir.h"

namespace p2pw::testing {

// What was posted from any thread runs in the test's thread, while that waits for something.
class ControlLoop {
 public:
  PostToControl poster() {
    return [io = io_](std::function<void()> work) { boost::asio::post(*io, std::move(work)); };
  }
  boost::asio::io_context& io() { return *io_; }
  // False when `done` did not come true; the limit is there only so that a broken swarm ends the test.
  bool run_until(const std::function<bool()>& done,
                 std::chrono::milliseconds limit = std::chrono::seconds(30));

 private:
  std::shared_ptr<boost::asio::io_context> io_ = std::make_shared<boost::asio::io_context>(1);
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_->get_executor()};
};

// Where libtorrent runs.
enum class Where { here, child };
inline constexpr const char* kChildProgram = P2PW_BIN_DIR "/p2pwd";
Result<std::unique_ptr<Swarm>> open_swarm(ControlLoop& loop, const SwarmChildOptions& options, SwarmEvents& events,
                                          Where where);

struct TestBundle {
  BundleId id;
  BundleRecord record;
  std::vector<ChunkRoot> roots;
  Bytes bytes;  // used ones
  ByteView chunk(std::uint32_t i) const {
    return ByteView(bytes).subspan(std::uint64_t(i) * record.chunk_bytes, record.chunk_used(ChunkIndex(i)));
  }
};
TestBundle make_bundle(std::uint64_t used_bytes, std::uint32_t chunk_bytes, std::uint32_t seed);

class TestNode : public SwarmEvents {
 public:
  // `number` makes the key (a smaller number is a smaller key) and the loopback address.
  TestNode(ControlLoop& loop, std::uint8_t number, const std::function<void(SwarmOptions&)>& change = {},
           Where where = Where::here);
  ~TestNode() override;

  static std::string address_of(std::uint8_t number);
  SwarmPeer peer() const { return {options_.swarm.self, options_.swarm.address, swarm_->listen_port()}; }
  Swarm& swarm() { return *swarm_; }
  void stop() { swarm_.reset(); }
  void restart();

  // A bundle file, empty, with these chunks put in.
  std::shared_ptr<BundleFile> file(const TestBundle& bundle, const std::vector<std::uint32_t>& have = {});
  void add(const TestBundle& bundle, const std::vector<std::uint32_t>& have = {});
  void put_and_offer(const TestBundle& bundle, std::uint32_t chunk);
  bool complete(const TestBundle& bundle) const;
  Bytes used_bytes(const TestBundle& bundle) const;

  void swarm_chunk_arrived(const BundleId& bundle, ChunkIndex chunk) override;
  void swarm_chunk_handed_on(const BundleId& bundle, ChunkIndex chunk) override { handed_on[bundle].insert(chunk.value()); }
  void swarm_peer_blocked(const BundleId& bundle, const std::string& address,
                          const std::string& reason) override;
  void swarm_failed(const BundleId& bundle, const Error& error) override;
  void swarm_ended(const std::string& why) override { ended.push_back(why); }

  std::map<BundleId, std::multiset<std::uint32_t>> arrived, handed_on;
  std::vector<std::pair<BundleId, std::string>> blocked;
  std::vector<Error> failures;
  std::vector<std::string> ended, reasons;  // of processes; of blocked peers
  std::function<void(ChunkIndex)> on_arrived;

 private:
  ControlLoop& loop_;
  TempDir dir_;
  SwarmChildOptions options_;
  Where where_;
  std::map<BundleId, std::shared_ptr<BundleFile>> files_;
  std::unique_ptr<Swarm> swarm_;
};

void introduce(const std::vector<TestNode*>& nodes);

std::vector<std::uint32_t> all_chunks(const TestBundle& bundle);

}  // namespace p2pw::testing
