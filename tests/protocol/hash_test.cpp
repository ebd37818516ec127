#include "protocol/hash.h"

#include <gtest/gtest.h>

#include <random>

#include "protocol/limits.h"

namespace p2pw {
namespace {

constexpr std::size_t kLeaf = 16384;

Bytes noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes out(size);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

// BEP 52 from its text, top down and without any of the shortcuts of the code under test: the root of a tree
// of 2^height leaves that begins at leaf `first` of `file`; leaves past its end are zero hashes.
Sha256 plain_root(ByteView file, std::size_t first, unsigned height) {
  if (height == 0) {
    const std::size_t begin = first * kLeaf;
    if (begin >= file.size()) return {};
    return sha256(file.subspan(begin, std::min(kLeaf, file.size() - begin)));
  }
  const Sha256 left = plain_root(file, first, height - 1);
  const Sha256 right = plain_root(file, first + (std::size_t(1) << (height - 1)), height - 1);
  Bytes both(64);
  std::ranges::copy(left.view(), both.begin());
  std::ranges::copy(right.view(), both.begin() + 32);
  return sha256(both);
}

unsigned height_for(std::size_t leaves) {
  unsigned height = 0;
  while ((std::size_t(1) << height) < leaves) ++height;
  return height;
}

TEST(Hash, Sha256OfKnownInputs) {
  EXPECT_EQ(sha256({}).hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256(as_bytes("abc")).hex(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, StreamGivesTheSameAsOneCall) {
  const Bytes input = noise(1000, 1);
  Sha256Stream stream;
  stream.add(ByteView(input).first(1));
  stream.add({});
  stream.add(ByteView(input).subspan(1, 700));
  Sha256Stream moved = std::move(stream);
  moved.add(ByteView(input).subspan(701));
  EXPECT_EQ(moved.finish(), sha256(input));
}

// A bundle is padded with zeros to whole chunks, and BEP 52 sees the padded file.
TEST(Hash, ChunkAndPiecesRootsFollowBep52) {
  struct Case {
    std::size_t used;
    std::uint32_t chunk;
    const char* why;
  };
  const Case cases[] = {
      {1, 16u << 10, "one byte in one leaf"},
      {16384, 16u << 10, "exactly one chunk of one leaf"},
      {16385, 16u << 10, "one byte past a leaf"},
      {65536, 64u << 10, "one full chunk: its root is the file's"},
      {40000, 64u << 10, "one padded chunk: a partial leaf and a leaf of zeros"},
      {5 * 65536, 64u << 10, "five chunks: three missing ones of zero hashes"},
      {5 * 65536 - 1, 64u << 10, "the last chunk padded by one byte"},
      {4 * 65536 + 1, 64u << 10, "the last chunk padded by all but one byte"},
      {(3u << 20) + 17, 1u << 20, "the default chunk size"},
      {(4u << 20) + 16384, 4u << 20, "the largest chunk size"},
  };
  for (const Case& c : cases) {
    Bytes file = noise(c.used, static_cast<unsigned>(c.used));
    const std::size_t chunks = (c.used + c.chunk - 1) / c.chunk;
    std::vector<ChunkRoot> roots;
    for (std::size_t i = 0; i < chunks; ++i) {
      const std::size_t begin = i * c.chunk;
      roots.push_back(
          chunk_root(ByteView(file).subspan(begin, std::min<std::size_t>(c.chunk, c.used - begin)), c.chunk));
    }
    file.resize(chunks * c.chunk);
    for (std::size_t i = 0; i < chunks; ++i) {
      EXPECT_EQ(roots[i].data, plain_root(file, i * (c.chunk / kLeaf), height_for(c.chunk / kLeaf)).data)
          << c.why;
    }
    EXPECT_EQ(pieces_root(roots, c.chunk), plain_root(file, 0, height_for(file.size() / kLeaf))) << c.why;
  }
}

TEST(Hash, OneChunkIsItsOwnRoot) {
  const ChunkRoot root = chunk_root(as_bytes("hello"), limits::kMinChunkBytes);
  EXPECT_EQ(pieces_root(std::span(&root, 1), limits::kMinChunkBytes).data, root.data);
}

TEST(Hash, EmptyChunkIsAllZeros) {
  const Bytes zeros(32u << 10);
  EXPECT_EQ(chunk_root({}, 32u << 10), chunk_root(zeros, 32u << 10));
  EXPECT_NE(chunk_root({}, 32u << 10), chunk_root({}, 64u << 10));
}

// Values that libtorrent 2.0.8 (create_torrent, v2_only, set_piece_hashes) gives for the padded file.
TEST(Hash, AgreesWithLibtorrent) {
  Bytes used(150'000);
  for (std::size_t i = 0; i < used.size(); ++i) used[i] = static_cast<std::byte>(i % 251);
  const char* const kPieces[] = {
      "d9e13d0b676ad681164ef0b7b5910d1328ea83a047cad57e619d76bbe3a08525",
      "e28097eaaa55956702cf8195d1a551dbabb63e3d679b294cf33d506a6b5ef479",
      "c652249676984ba0be8db1d26efa9e0c67cd14299b02eaab326419a0f91a1aec",
      "ac13964b51d3110275d8500b340b92fd2ac4bab61bd18eef21651b1e26ec4a78",
      "1889110614d4ca57b6bf09735d87a13bd96461db17ffbb399b51168baae7e3de",
  };
  constexpr std::uint32_t kChunk = 32u << 10;
  std::vector<ChunkRoot> roots;
  for (std::size_t i = 0; i < std::size(kPieces); ++i) {
    roots.push_back(chunk_root(
        ByteView(used).subspan(i * kChunk, std::min<std::size_t>(kChunk, used.size() - i * kChunk)), kChunk));
    EXPECT_EQ(roots.back().hex(), kPieces[i]) << i;
  }
  EXPECT_EQ(pieces_root(roots, kChunk).hex(),
            "e30ed3d5fe65e6dd8f359a0113121db7ead00c02d14123629d5d8392d9af026c");
}

}  // namespace
}  // namespace p2pw
