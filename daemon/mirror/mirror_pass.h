// One pass that brings a mirror up to a channel's newest sealed version: uploads what is missing, then the records, so that
// a reader never sees a version whose bundles are not there; and removes what no way from nothing needs any more.
//
// What stays: everything from the anchor before the last one on. A reader that was on its way through the older lineage
// when the new anchor came still finds it.
//
// Runs as a whole on a thread that may block; takes values, gives values.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "daemon/core/bundle_store.h"
#include "daemon/mirror/mirror_names.h"
#include "daemon/mirror/mirror_store.h"

namespace p2pw {

// A bundle of a sealed run, as far as this node has it.
struct MirrorBundle {
  BundleId id;
  BundleRecord record;
  std::shared_ptr<const StoredBundle> stored;  // null: not here, or not whole
};

struct MirrorRun {
  RunId id;
  Version version, previous;
  Kind kind = Kind::delta;
  bool again = false;  // an anchor outside the chain
  SealHash previous_seal;
  std::vector<MirrorBundle> bundles;
  std::vector<Bytes> records;  // open, bundles, seal
};

struct MirrorJob {
  MirrorNames names;
  RecordVerifier verifier;
  WallTime now{};
  std::vector<MirrorRun> runs;  // sealed ones up to the newest version that is whole here, by version; of one version
                                // the run of the chain first
  std::map<SealHash, Bytes> seals;
  std::vector<Bytes> delegate;
  std::map<Version, Bytes> certificates;
  bool check_all = false;  // look at everything, whatever `newest` says

  MirrorPosition position() const;  // how far this brings a mirror at most
};

using FindBundle = std::function<std::shared_ptr<const StoredBundle>(const BundleId&)>;
// What a log and the bundles of a node give for a pass. `find`: the bundle, when it is here, whole.
MirrorJob mirror_job(const ChannelLog& log, WallTime now, const FindBundle& find);

struct MirrorPassed {
  MirrorPosition position;     // of the mirror now
  std::uint64_t uploaded = 0;  // bytes of bundles and metas
  std::uint64_t objects = 0;   // of these
  std::uint64_t removed = 0;   // bundles
};
// `there`: bundles that are known to be in the mirror; grows, also when the pass fails.
// Errors: not_found (no way from nothing is whole: what is lacking is neither here nor there), integrity (a bundle on this
// disk is damaged), those of the store, which never are one of these two.
Result<MirrorPassed> run_pass(MirrorStore& store, const MirrorJob& job, std::set<BundleId>& there);

// The run that the lineage begins with: the newest anchor from which on everything is available; null when there is none,
// with the newest run that is not available in `lacking`.
const MirrorRun* start_of_lineage(const std::vector<MirrorRun>& runs,
                                  const std::function<bool(const MirrorRun&)>& available, const MirrorRun** lacking);

}  // namespace p2pw
