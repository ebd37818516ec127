// Takes from the mirror what no peer gives, for one channel: records, metas, chunks, and single slabs of a
// damaged slot. Each is checked like a peer's; what is
// wrong is named and left alone for a while, and peers are asked as ever.
//
// Control thread only.
#pragma once

#include <deque>
#include <unordered_map>

#include "daemon/mirror/mirror.h"

namespace p2pw {

class MirrorReader {
 public:
  static constexpr unsigned kAtOnce = 4;                  // requests for metas and chunks
  static constexpr std::uint64_t kRangeBytes = 8u << 20;  // of one request, about
  static constexpr std::size_t kRecordsAtOnce = 64;       // signatures checked in one tick

  MirrorReader(MirrorHost& host, MirrorAccess& access, const MirrorPatience& patience);
  void tick();

 private:
  void look_for_records();
  void greet();
  // One object that is no chunk, at a time.
  void read(const std::string& name, std::uint64_t most, std::function<void(Result<Bytes>)> done);
  void read_records();
  void got_records(Result<Bytes> bytes);
  void feed_records();
  void fetch_metas();
  void fetch_chunks();
  void fetch_missing(const MirrorHost::ChunksWanted& wanted);
  void fetch_slabs();
  void fetch_range(const std::shared_ptr<StoredBundle>& bundle, ChunkIndex first, std::uint32_t count);
  bool left_alone(const BundleId& bundle) const;
  void refuse(const BundleId& bundle, Version version, const Error& error);

  MirrorHost& host_;
  MirrorAccess& access_;
  const MirrorPatience& patience_;
  MirrorNames names_;
  std::optional<SteadyTime> lonely_, polled_;  // since when nobody tells news; when the mirror was asked last
  std::optional<SteadyTime> greeted_;          // when it was found to be readable
  bool reading_ = false;                       // the hint or the records
  Version promised_;  // the newest that the hint has promised in vain, and till when that is remembered
  SteadyTime promised_until_{};
  std::deque<Bytes> records_;  // read, not yet judged
  unsigned running_ = 0;
  std::set<BundleId> metas_;                                      // on their way
  std::unordered_map<BundleId, std::set<std::uint32_t>> chunks_;  // on their way
  std::unordered_map<BundleId, SteadyTime> refused_;              // until when
  std::map<std::uint32_t, SteadyTime> slabs_;                     // asked for; not again until then
  std::shared_ptr<MetaCache> metas_read_ = std::make_shared<MetaCache>();
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace p2pw
