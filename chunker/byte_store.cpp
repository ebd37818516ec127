#include "chunker/byte_store.h"

#include "chunker/codec/codec.h"
#include "protocol/limits.h"

namespace p2pw {

ByteStore::ByteStore(FileSystem& files, std::filesystem::path directory)
    : files_(files), directory_(std::move(directory)) {}

std::filesystem::path ByteStore::path_of(const Digest& digest) const { return directory_ / digest.hex(); }

Status ByteStore::put(const Digest& digest, ByteView bytes) {
  std::filesystem::path temporary;
  {
    std::lock_guard lock(mutex_);
    if (!made_) {
      P2PW_CHECK(files_.make_directories(directory_));
      P2PW_CHECK(files_.sync_directory(directory_.parent_path()));
      made_ = true;
    }
    // Of a crash before: it may not be stable yet, whether its contents are good or not.
    unsynced_.insert(digest);
    temporary = directory_ / ("new-" + std::to_string(next_temporary_++));
  }
  if (get(digest)) return {};
  {
    P2PW_TRY(auto file, files_.open(temporary, OpenMode::create));
    P2PW_CHECK(file->allocate(bytes.size()));
    P2PW_CHECK(write_all(*file, 0, bytes));
  }
  return files_.rename(temporary, path_of(digest));
}

Result<Bytes> ByteStore::get(const Digest& digest) const {
  P2PW_TRY(Bytes bytes, read_small_file(files_, path_of(digest), limits::kSlabBytes));
  if (codec::digest_of(bytes) != digest) {
    (void)files_.remove(path_of(digest));
    return fail(ErrorCode::integrity, path_of(digest).string() + ": does not have its digest any more; removed");
  }
  return bytes;
}

Status ByteStore::sync() {
  std::set<Digest> digests;
  {
    std::lock_guard lock(mutex_);
    digests.swap(unsynced_);
  }
  Status synced = sync_files(digests);
  if (!synced) {
    std::lock_guard lock(mutex_);
    unsynced_.insert(digests.begin(), digests.end());
  }
  return synced;
}

Status ByteStore::sync_files(const std::set<Digest>& digests) {
  if (digests.empty()) return {};
  for (const Digest& digest : digests) {
    P2PW_TRY(auto file, files_.open(path_of(digest), OpenMode::write));
    P2PW_CHECK(file->sync());
  }
  return files_.sync_directory(directory_);
}

void ByteStore::keep_only(const std::set<Digest>& digests) {
  auto entries = files_.list(directory_);
  if (!entries) return;
  std::lock_guard lock(mutex_);
  for (const DirectoryEntry& entry : *entries) {
    auto digest = Digest::from_hex(entry.name);
    if (digest && digests.contains(*digest)) continue;
    (void)files_.remove(directory_ / entry.name);
    if (digest) unsynced_.erase(*digest);
  }
}

}  // namespace p2pw
