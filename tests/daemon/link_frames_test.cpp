#include "daemon/link/frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "protocol/links.pb.h"

namespace p2pw {
namespace {

wire::LinkMessage chunk_message(std::uint32_t index) {
  wire::LinkMessage message;
  message.mutable_chunk()->set_bundle(std::string(32, 'b'));
  message.mutable_chunk()->set_index(index);
  return message;
}

wire::LinkMessage text_message(const std::string& text) {
  wire::LinkMessage message;
  message.mutable_records_wanted()->set_channel(text);
  return message;
}

// Feeds `bytes` in pieces as a stream would bring them.
Result<std::vector<Frame>> read_all(FrameReader& reader, ByteView bytes,
                                    const std::function<std::size_t()>& piece) {
  std::vector<Frame> frames;
  while (!bytes.empty()) {
    const auto room = reader.writable();
    EXPECT_FALSE(room.empty());
    const std::size_t count = std::min({room.size(), bytes.size(), piece()});
    std::copy_n(bytes.begin(), count, room.begin());
    bytes = bytes.subspan(count);
    P2PW_CHECK(reader.commit(count));
    if (auto frame = reader.take()) frames.push_back(std::move(*frame));
  }
  return frames;
}

Bytes frame(const wire::LinkMessage& message, const Bytes& payload = {}) {
  Bytes bytes = frame_head(message, payload.size()).value();
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

TEST(LinkFrames, ComeBackAsTheyWereSentHoweverTheyAreCut) {
  const auto seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    Bytes stream;
    std::vector<std::pair<wire::LinkMessage, Bytes>> sent;
    for (int i = 0; i < 10; ++i) {
      wire::LinkMessage message = random() % 2 ? chunk_message(static_cast<std::uint32_t>(random()))
                                               : text_message(std::string(random() % 300, 'x'));
      Bytes payload(message.has_chunk() ? random() % 200'000 : 0);
      for (auto& byte : payload) byte = static_cast<std::byte>(random());
      const Bytes framed = frame(message, payload);
      stream.insert(stream.end(), framed.begin(), framed.end());
      sent.emplace_back(message, payload);
    }
    FrameReader reader{FrameLimits{}};
    auto frames = read_all(reader, stream, [&] { return 1 + random() % 20'000; });
    ASSERT_TRUE(frames.ok());
    ASSERT_EQ(frames->size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(as_text((*frames)[i].header), sent[i].first.SerializeAsString());
      EXPECT_EQ((*frames)[i].payload, sent[i].second);
    }
    EXPECT_TRUE(reader.between_frames());
  }
}

Status feed_prefix(FrameReader& reader, std::uint32_t header, std::uint32_t payload) {
  Bytes bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(header >> (8 * i)));
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(payload >> (8 * i)));
  std::copy(bytes.begin(), bytes.end(), reader.writable().begin());
  return reader.commit(bytes.size());
}

TEST(LinkFrames, RefuseLengthsAboveTheirBounds) {
  FrameReader longest{FrameLimits{}};
  EXPECT_TRUE(feed_prefix(longest, limits::kMaxMessageBytes, limits::kMaxPayloadBytes).ok());
  FrameReader header{FrameLimits{}};
  EXPECT_EQ(feed_prefix(header, limits::kMaxMessageBytes + 1, 0).error().code, ErrorCode::limit);
  FrameReader payload{FrameLimits{}};
  EXPECT_EQ(feed_prefix(payload, 10, limits::kMaxPayloadBytes + 1).error().code, ErrorCode::limit);
  FrameReader wrapped{FrameLimits{}};
  EXPECT_EQ(feed_prefix(wrapped, 0xffffffffu, 0xffffffffu).error().code, ErrorCode::limit);
  FrameReader unproven{kUnprovenLimits};
  EXPECT_EQ(feed_prefix(unproven, 10, 1).error().code, ErrorCode::limit);
  FrameReader empty{FrameLimits{}};
  EXPECT_EQ(feed_prefix(empty, 0, 5).error().code, ErrorCode::malformed);
}

TEST(LinkFrames, HoldNoMoreThanHasCome) {
  FrameReader reader{FrameLimits{}};
  const Bytes head = frame_head(chunk_message(1), limits::kMaxChunkBytes).value();
  ASSERT_TRUE(read_all(reader, head, [] { return std::size_t{100}; }).ok());
  EXPECT_LT(reader.held(), 1u << 10);
  const Bytes some(300'000);
  ASSERT_TRUE(read_all(reader, some, [] { return std::size_t{50'000}; }).ok());
  EXPECT_LT(reader.held(), some.size() + (128u << 10));
}

TEST(LinkFrames, RefuseAPayloadBeforeTakingItIn) {
  const auto refused = [](const wire::LinkMessage& message, std::size_t payload) {
    FrameReader reader{FrameLimits{}};
    auto frames = read_all(reader, frame_head(message, payload).value(), [] { return std::size_t{1000}; });
    return !frames.ok() && frames.error().code == ErrorCode::malformed;
  };
  EXPECT_TRUE(refused(text_message("x"), 1));
  EXPECT_TRUE(refused(chunk_message(1), limits::kMaxChunkBytes + 1));
  EXPECT_FALSE(refused(chunk_message(1), limits::kMaxChunkBytes));
  wire::LinkMessage slab;
  slab.mutable_slab();
  EXPECT_TRUE(refused(slab, limits::kSlabBytes + 1));
  EXPECT_FALSE(refused(slab, limits::kSlabBytes));
  wire::LinkMessage meta;
  meta.mutable_meta();
  EXPECT_FALSE(refused(meta, limits::kMaxMetaBytes));
}

TEST(LinkFrames, ParseOnlyKnownMessages) {
  EXPECT_TRUE(parse_link_message(as_bytes(text_message("x").SerializeAsString()), 0).ok());
  EXPECT_EQ(parse_link_message(as_bytes("\xff\xff\xff"), 0).error().code, ErrorCode::malformed);
  // Field 15 000 of a later version.
  EXPECT_EQ(parse_link_message(as_bytes(std::string("\xc2\xa9\x07\x01x", 5)), 0).error().code,
            ErrorCode::malformed);
}

TEST(LinkFrames, OwnMessagesThatAreTooLargeAreNotSent) {
  EXPECT_EQ(frame_head(text_message(std::string(limits::kMaxMessageBytes + 1, 'x')), 0).error().code,
            ErrorCode::limit);
  EXPECT_EQ(frame_head(text_message("x"), limits::kMaxPayloadBytes + 1).error().code, ErrorCode::limit);
}

}  // namespace
}  // namespace p2pw
