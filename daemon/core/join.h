// How a node that has nothing, or is too far behind, finds a place to start from without the WAN: it asks its neighbours
// what their active slots hold, takes the newest answer whose digests hash to what that version's seal says, and gets the
// byte slabs (file table, headers, side files) from the one who gave it. The tensor slabs are the Rebuilder's business.
//
//   idle -> asking -> fetching -> offered
//   asking -> nobody     no neighbour has anything
//   fetching -> asking   the giver is gone, or has moved on
//
// Pure but for the byte store. Control thread only.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "chunker/checkpoint_table.h"
#include "protocol/channel_log.h"
#include "protocol/links.pb.h"
#include "protocol/membership.h"

namespace p2pw {

class Join {
 public:
  enum class State : std::uint8_t { idle, asking, fetching, offered, nobody };
  static constexpr std::chrono::milliseconds kAnswers{1500};  // for the neighbours to say what they hold
  static constexpr std::chrono::milliseconds kAlone{500};     // for one to turn up where the table of members has none
  static constexpr std::chrono::seconds kFetch{20};           // for the byte slabs
  static constexpr std::size_t kAtOnce = 64;                  // byte slabs in one question

  struct Offer {
    std::shared_ptr<const CheckpointTable> table;
    Version version;
    SealHash seal;
    Version keeps_above;  // the giver has the bundles of all versions above this one
  };
  using Send = std::function<void(const NodeKey& to, const wire::LinkMessage& message)>;

  Join(const ChannelLog& log, std::shared_ptr<ByteStore> store, Send send);

  State state() const { return state_; }
  bool undecided() const { return state_ == State::asking || state_ == State::fetching; }
  void begin(const std::vector<NodeKey>& neighbours, SteadyTime now);
  void stop() { state_ = State::idle; }  // and from any: begin() starts over
  // Errors: integrity or malformed (whoever sent it is suspect).
  Status table(const NodeKey& from, const wire::Table& table, ByteView digests);
  // A byte slab. Errors: integrity.
  Status slab(const NodeKey& from, SlabId slab, bool gone, ByteView bytes);
  void peer_lost(const NodeKey& peer);
  // `alone`: the table of members has nobody else in this region.
  void tick(const std::vector<NodeKey>& neighbours, bool alone, SteadyTime now);
  const std::optional<Offer>& offer() const { return offer_; }

 private:
  struct Answer {
    Version version, keeps_above;
    SealHash seal;
    Sha256 table_hash;
    std::vector<Digest> bytes, tensors;
  };
  void ask(const NodeKey& peer);
  void choose(SteadyTime now);
  void ask_bytes();
  void complete();

  const ChannelLog& log_;
  std::shared_ptr<ByteStore> store_;
  Send send_;
  State state_ = State::idle;
  SteadyTime since_{};
  std::set<NodeKey> told_;   // have been asked since the beginning
  std::set<NodeKey> asked_;  // and have not answered
  std::map<NodeKey, Answer> answers_;
  bool ahead_ = false;       // one of them holds a version that is not known here yet
  NodeKey giver_;
  std::set<std::uint32_t> missing_;  // byte slabs of the chosen answer
  std::optional<Offer> offer_;
};

std::string_view name_of(Join::State state);

}  // namespace p2pw
