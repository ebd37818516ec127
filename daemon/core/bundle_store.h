// The bundles of one channel on this disk: <folder>/<bundle id>.bundle and .meta. A bundle stays until retention drops it.
// Control thread only, apart from the BundleFiles themselves.
#pragma once

#include <memory>
#include <unordered_map>

#include "chunker/bundle_file.h"

namespace p2pw {

struct StoredBundle {
  BundleId id;
  BundleRecord record;
  Bytes encoded_meta;
  std::shared_ptr<const BundleMeta> meta;
  std::shared_ptr<BundleFile> file;
};

class BundleStore {
 public:
  explicit BundleStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // Checks the meta against the record, stores it and opens (or makes) the file; hashes what is on disk already, which
  // takes a while for a large bundle after a restart. The same bundle again is the same object.
  // Errors: integrity, malformed, limit (the meta); io, no_space.
  Result<std::shared_ptr<StoredBundle>> open(const BundleId& id, const BundleRecord& record, ByteView encoded_meta);
  // The meta of a bundle that was open before a restart; nothing when there is none.
  std::optional<Bytes> saved_meta(const BundleId& id) const;
  std::shared_ptr<StoredBundle> find(const BundleId& id) const;
  void remove(const BundleId& id);
  // The next open() looks at the file anew.
  void close(const BundleId& id) { bundles_.erase(id); }
  // Removes files of bundles that nobody opened: leftovers of dead versions.
  void remove_strangers();
  std::uint64_t bytes() const;

 private:
  std::filesystem::path path(const BundleId& id, const char* extension) const;
  std::filesystem::path folder_;
  std::unordered_map<BundleId, std::shared_ptr<StoredBundle>> bundles_;
};

}  // namespace p2pw
