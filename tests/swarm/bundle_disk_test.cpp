#include "daemon/swarm/bundle_disk.h"

#include <gtest/gtest.h>

#include <future>
#include <libtorrent/file_storage.hpp>
#include <libtorrent/peer_request.hpp>
#include <libtorrent/storage_defs.hpp>

#include "tests/swarm/swarm_world.h"

namespace p2pw {
namespace {

using p2pw::testing::TempDir;
using p2pw::testing::TestBundle;

constexpr std::uint32_t kChunk = 256u << 10;

// The pool thread that has written a chunk stays here, as it would in a write to a disk whose queue is full.
class StuckWriter final : public DiskListener {
 public:
  void chunk_stored(const BundleId&, ChunkIndex) override {
    arrived_.set_value();
    go_on_.get_future().wait();
  }
  void chunk_checked(const BundleId&, ChunkIndex, bool, const std::vector<Sha256>&) override {}

  void wait_until_stuck() { arrived_.get_future().wait(); }
  void release() { go_on_.set_value(); }

 private:
  std::promise<void> arrived_, go_on_;
};

class BundleDiskTest : public ::testing::Test {
 protected:
  BundleDiskTest() {
    auto opened = BundleFile::open(dir.path() / "bundle", bundle.record, bundle.roots);
    EXPECT_TRUE(opened.ok());
    file = *opened;
    EXPECT_TRUE(file->put(ChunkIndex(1), bundle.chunk(1)).ok());
    disk.expect(path, bundle.id, file);
    storage = disk.new_torrent(lt::storage_params(files, nullptr, path, lt::storage_mode_sparse, priorities, {}), nullptr);
  }
  ~BundleDiskTest() override {
    storage.reset();
    disk.abort(true);
    io.run();
  }

  void write(std::uint32_t chunk) {
    const ByteView bytes = bundle.chunk(chunk);
    for (int at = 0; at < static_cast<int>(kChunk); at += lt::default_block_size) {
      disk.async_write(storage, {lt::piece_index_t(static_cast<int>(chunk)), at, lt::default_block_size},
                       reinterpret_cast<const char*>(bytes.data()) + at, {}, [](const lt::storage_error&) {}, {});
    }
  }
  void hash(std::uint32_t chunk, bool& done) {
    disk.async_hash(storage, lt::piece_index_t(static_cast<int>(chunk)), blocks, {},
                    [&done](lt::piece_index_t, const lt::sha1_hash&, const lt::storage_error& error) {
                      EXPECT_FALSE(error);
                      done = true;
                    });
  }
  void run_until(const bool& done) {
    while (!done) io.run_one();
  }

  TempDir dir;
  TestBundle bundle = p2pw::testing::make_bundle(2 * kChunk, kChunk, 7);
  std::shared_ptr<BundleFile> file;
  lt::io_context io{1};
  std::shared_ptr<StuckWriter> writer = std::make_shared<StuckWriter>();
  BundleDisk disk{io, writer, 1};
  const std::string path = "/bundle";
  lt::file_storage files;
  lt::aux::vector<lt::download_priority_t, lt::file_index_t> priorities;
  lt::storage_holder storage;
  std::vector<lt::sha256_hash> blocks{kChunk / lt::default_block_size};
};

// A chunk that came over a link is announced to the region as soon as it is hashed: not after whatever else a slow disk
// has yet to write.
TEST_F(BundleDiskTest, WhatIsInTheFileIsHashedWhileAWriteIsStuck) {
  bool written = false, hashed = false;
  write(0);
  hash(0, written);
  writer->wait_until_stuck();
  hash(1, hashed);
  run_until(hashed);
  EXPECT_FALSE(written);
  writer->release();
  run_until(written);
  EXPECT_TRUE(file->complete());
}

}  // namespace
}  // namespace p2pw
