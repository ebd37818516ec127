#include "daemon/swarm/torrent.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <libtorrent/create_torrent.hpp>
#include <libtorrent/torrent_info.hpp>

#include "tests/support/temp_dir.h"
#include "tests/swarm/swarm_world.h"

namespace p2pw::testing {
namespace {

constexpr std::uint32_t kChunk = 64u << 10;

Bytes padded(const TestBundle& bundle) {
  Bytes bytes = bundle.bytes;
  bytes.resize(bundle.record.padded_bytes());
  return bytes;
}

class TorrentTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(TorrentTest, LibtorrentMakesTheSameOfTheSameBytes) {
  const TestBundle bundle = make_bundle(GetParam(), kChunk, 1);
  auto ours = make_torrent(bundle.id, bundle.record, bundle.roots);
  ASSERT_TRUE(ours.ok()) << ours.error().message;
  const lt::torrent_info& info = **ours;
  EXPECT_TRUE(info.is_valid());
  EXPECT_FALSE(info.info_hashes().has_v1());
  EXPECT_TRUE(info.info_hashes().has_v2());
  EXPECT_EQ(info.num_files(), 1);
  EXPECT_EQ(info.total_size(), static_cast<std::int64_t>(bundle.record.padded_bytes()));
  EXPECT_EQ(info.num_pieces(), static_cast<int>(bundle.roots.size()));
  EXPECT_EQ(info.piece_length(), static_cast<int>(kChunk));

  TempDir dir;
  const Bytes bytes = padded(bundle);
  std::ofstream(dir / "bundle")
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  lt::file_storage files;
  lt::add_files(files, (dir / "bundle").string());
  lt::create_torrent creator(files, kChunk, lt::create_torrent::v2_only);
  lt::set_piece_hashes(creator, dir.path().string());
  const std::vector<char> made = creator.generate_buf();
  const lt::torrent_info theirs(made, lt::from_span);
  EXPECT_EQ(theirs.files().root(lt::file_index_t(0)), info.files().root(lt::file_index_t(0)));
  // BEP 52 has no layer for a single piece; libtorrent 2.0.8 writes one all the same.
  if (info.num_pieces() > 1) {
    EXPECT_EQ(info.piece_layer(lt::file_index_t(0)), theirs.piece_layer(lt::file_index_t(0)));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, TorrentTest,
                         ::testing::Values(1, 16u << 10, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk,
                                           5 * kChunk - 9, 16 * kChunk, 33 * kChunk));

TEST(Torrent, IsAPureFunctionOfIdAndRecord) {
  const TestBundle bundle = make_bundle(3 * kChunk, kChunk, 2);
  auto once = torrent_bytes(bundle.id, bundle.record, bundle.roots);
  auto twice = torrent_bytes(bundle.id, bundle.record, bundle.roots);
  ASSERT_TRUE(once.ok());
  EXPECT_EQ(*once, *twice);

  TestBundle other = bundle;
  other.id.data[5] ^= 1;
  auto changed = make_torrent(other.id, other.record, other.roots);
  auto original = make_torrent(bundle.id, bundle.record, bundle.roots);
  EXPECT_NE((*changed)->info_hashes(), (*original)->info_hashes());
}

TEST(Torrent, RefusesRootsThatTheRecordIsNotBoundTo) {
  TestBundle bundle = make_bundle(3 * kChunk, kChunk, 3);
  bundle.roots[1].data[0] ^= 1;
  EXPECT_EQ(torrent_bytes(bundle.id, bundle.record, bundle.roots).error().code, ErrorCode::integrity);
  bundle.roots.pop_back();
  EXPECT_EQ(torrent_bytes(bundle.id, bundle.record, bundle.roots).error().code, ErrorCode::malformed);
  bundle.record.chunk_bytes = 100'000;
  EXPECT_EQ(torrent_bytes(bundle.id, bundle.record, bundle.roots).error().code, ErrorCode::malformed);
}

}  // namespace
}  // namespace p2pw::testing
