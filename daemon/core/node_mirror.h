// The mirror of each followed channel, in the node: what it sees of the node, and its turn in every tick.
//
// Control thread only.
#pragma once

#include "daemon/client/api.h"
#include "daemon/core/follower.h"
#include "daemon/mirror/mirror_reader.h"
#include "daemon/mirror/mirror_writer.h"

namespace p2pw {

class Node;

class ChannelMirror : private MirrorHost {
 public:
  ChannelMirror(Node& node, Follower& follower, MirrorAccess& access, bool writes);
  void tick();
  std::optional<Need> need() const { return writer_ ? writer_->need() : std::nullopt; }
  Version version() const { return writer_ ? writer_->version() : Version(); }

 private:
  const ChannelLog& log() const override { return follower_.log(); }
  NodeKey self() const override;
  SteadyTime now() const override;
  WallTime wall_now() const override;
  std::shared_ptr<const StoredBundle> stored(const BundleId& bundle) const override {
    return follower_.bundles().find(bundle);
  }
  std::vector<MetaWanted> metas_wanted() const override;
  std::vector<ChunksWanted> chunks_wanted() const override;
  std::vector<SlabWanted> slabs_wanted() const override;
  void draw(const BundleId& bundle) override;
  void claim_quiet(const MirrorPatience& patience, const std::function<bool(const BundleId&)>& may) override;
  bool hears_trainer() const override { return follower_.head_state() == "live"; }
  std::size_t place() const override;
  std::size_t writing_place() const override;
  Status take_record(ByteView envelope) override;
  Status take_meta(const BundleId& bundle, Bytes meta) override;
  void chunk_put(const BundleId& bundle, ChunkIndex chunk) override;
  void slab_found(std::uint32_t slab, SlabFound found) override;
  void event(const std::string& event, Version version, const std::string& detail) override;
  std::size_t place_for(const BundlePlace& bundle) const;

  Node& node_;
  Follower& follower_;
  const MirrorPatience patience_;
  MirrorReader reader_;
  std::optional<MirrorWriter> writer_;
};

// What the API and the metrics say of it; without a URL when there is none.
api::MirrorStatus mirror_status(const Node& node);

}  // namespace p2pw
