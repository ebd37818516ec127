#include "daemon/core/bundle_store.h"

#include "daemon/client/files.h"
#include "protocol/limits.h"

namespace p2pw {

namespace fs = std::filesystem;

fs::path BundleStore::path(const BundleId& id, const char* extension) const { return folder_ / (id.hex() + extension); }

Result<std::shared_ptr<StoredBundle>> BundleStore::open(const BundleId& id, const BundleRecord& record,
                                                        ByteView encoded_meta) {
  if (auto known = find(id)) return known;
  P2PW_TRY(BundleMeta meta, BundleMeta::decode(encoded_meta, record));
  auto bundle = std::make_shared<StoredBundle>();
  bundle->id = id;
  bundle->record = record;
  bundle->encoded_meta.assign(encoded_meta.begin(), encoded_meta.end());
  bundle->meta = std::make_shared<const BundleMeta>(std::move(meta));
  if (saved_meta(id) != bundle->encoded_meta) {
    P2PW_CHECK(write_small_file(path(id, ".meta"), as_text(bundle->encoded_meta), 0640));
  }
  P2PW_TRY(bundle->file, BundleFile::open(path(id, ".bundle"), record, bundle->meta->chunk_roots));
  bundles_[id] = bundle;
  return bundle;
}

std::optional<Bytes> BundleStore::saved_meta(const BundleId& id) const {
  auto text = read_small_file(path(id, ".meta"), limits::kMaxMetaBytes);
  if (!text.ok()) return std::nullopt;
  auto bytes = as_bytes(*text);
  return Bytes(bytes.begin(), bytes.end());
}

std::shared_ptr<StoredBundle> BundleStore::find(const BundleId& id) const {
  auto it = bundles_.find(id);
  return it == bundles_.end() ? nullptr : it->second;
}

void BundleStore::remove(const BundleId& id) {
  bundles_.erase(id);
  std::error_code ignored;
  fs::remove(path(id, ".bundle"), ignored);
  fs::remove(path(id, ".meta"), ignored);
}

void BundleStore::remove_strangers() {
  std::error_code ignored;
  std::vector<fs::path> strangers;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    auto extension = entry.path().extension();
    if (extension != ".bundle" && extension != ".meta") continue;
    auto id = BundleId::from_hex(entry.path().stem().string());
    if (!id || !bundles_.contains(*id)) strangers.push_back(entry.path());
  }
  for (const fs::path& stranger : strangers) fs::remove(stranger, ignored);
}

std::uint64_t BundleStore::bytes() const {
  std::uint64_t total = 0;
  for (auto& [id, bundle] : bundles_) total += bundle->record.padded_bytes();
  return total;
}

}  // namespace p2pw
