// The parts below a frame: bits, rANS, gaps, step tables.
#include <gtest/gtest.h>

#include <cmath>

#include "chunker/codec/gaps.h"
#include "chunker/codec/steps.h"
#include "tests/chunker/codec_data.h"

namespace p2pw::codec {
namespace {

TEST(CodecBits, GolombOfEveryOrder) {
  TestRandom random(1);
  BitWriter out;
  std::vector<std::pair<std::uint64_t, unsigned>> written;
  for (int i = 0; i < 2000; ++i) {
    written.push_back({random.next() >> (10 + random.below(54)), static_cast<unsigned>(random.below(13))});
    out.put_golomb(written.back().first, written.back().second);
  }
  std::vector<std::uint8_t> bytes(out.byte_count() + 64);
  std::memcpy(bytes.data(), out.bytes().data(), out.byte_count());
  BitReader in(bytes.data(), out.byte_count());
  for (const auto& [value, order] : written) {
    std::uint64_t read = 0;
    ASSERT_TRUE(in.get_golomb(order, read));
    ASSERT_EQ(read, value);
  }
  std::uint64_t none = 0;
  EXPECT_FALSE(in.get_golomb(0, none) && none != 0);
}

TEST(CodecRans, SequencesOnAnyNumberOfLanes) {
  TestRandom random(2);
  std::array<std::uint64_t, 256> counts{};
  for (auto& count : counts) count = random.below(4) == 0 ? random.below(10'000) : 0;
  counts[7] += 1;
  RansModel model;
  model.build(shares_of(counts));
  RansModel lone;
  const std::uint64_t one[1] = {5};
  lone.build(shares_of(one));
  for (unsigned lane_count : {1u, 16u, 32u}) {
    for (std::size_t size : {0u, 1u, 15u, 17u, 33u, 5000u}) {
      std::vector<std::uint8_t> symbols(size), zeros(size + 3);
      for (auto& symbol : symbols) symbol = static_cast<std::uint8_t>(model.decode[random.below(kProbabilityScale)]);
      const RansSequence sequences[] = {{&model, symbols}, {&lone, zeros}, {&model, symbols}};
      std::vector<std::uint16_t> first_words;
      Lanes first_lanes{};
      for (Simd simd : every_simd()) {
        force_simd(simd);
        Lanes lanes;
        for (std::size_t lane = 0; lane < kMaxLanes; ++lane) lanes[lane] = kLaneLow + static_cast<std::uint32_t>(lane * 991);
        const Lanes start = lanes;
        std::vector<std::uint16_t> scratch;
        const auto words = rans_encode(sequences, lane_count, lanes, scratch);
        if (simd == Simd::scalar) {
          first_words.assign(words.begin(), words.end());
          first_lanes = lanes;
        }
        ASSERT_TRUE(std::equal(words.begin(), words.end(), first_words.begin(), first_words.end()));
        ASSERT_EQ(lanes, first_lanes);
        Bytes bytes(words.size() * 2);
        put_words(words, bytes.data());
        RansDecoder decoder(lanes, lane_count, bytes);
        for (const RansSequence& sequence : sequences) {
          std::vector<std::uint8_t> out(sequence.symbols.size());
          ASSERT_TRUE(decoder.decode(*sequence.model, out));
          ASSERT_TRUE(std::equal(out.begin(), out.end(), sequence.symbols.begin()));
        }
        EXPECT_TRUE(decoder.finished());
        EXPECT_EQ(decoder.lanes(), start);  // the payload comes out again
      }
      force_simd(detected_simd());
    }
  }
}

TEST(CodecRans, SharesSumAndSpareNobody) {
  TestRandom random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint64_t> counts(1 + random.below(256));
    for (auto& count : counts) count = random.below(3) == 0 ? 0 : random.below(std::uint64_t{1} << random.below(30));
    counts[random.below(counts.size())] += 1;
    const Shares shares = shares_of(counts);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 256; ++i) {
      sum += shares.share[i];
      EXPECT_LT(shares.share[i], kProbabilityScale);
      if (i < counts.size() && counts[i] != 0) {
        EXPECT_NE(shares.share[i], 0);
      }
    }
    EXPECT_EQ(sum, kProbabilityScale);
  }
}

TEST(CodecGaps, EveryPaceBringsMarksBack) {
  TestRandom random(4);
  for (unsigned pace = kMinPace; pace <= kMaxPace; pace += 3) {
    std::vector<std::uint32_t> marks;
    // Far gaps too: those take escapes.
    const std::uint64_t mean = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::exp2(pace / 8.0)));
    std::uint64_t at = random.below(2 * mean);
    while (at < (1u << 23) && marks.size() < 3000) {
      marks.push_back(static_cast<std::uint32_t>(at));
      at += 1 + random.below(random.below(50) == 0 ? 40 * mean : 2 * mean);
    }
    if (marks.empty()) continue;
    TokenBuffer first;
    for (Simd simd : every_simd()) {
      force_simd(simd);
      TokenBuffer tokens;
      BitWriter places;
      split_gaps(marks, gap_code(pace), tokens, places);
      if (simd == Simd::scalar) first = std::move(tokens);
      const TokenBuffer& same = simd == Simd::scalar ? first : tokens;
      ASSERT_EQ(same.size, first.size);
      ASSERT_EQ(std::memcmp(same.bytes.data(), first.bytes.data(), first.size), 0);
      std::vector<std::uint8_t> bits(places.byte_count() + 80);
      std::memcpy(bits.data(), places.bytes().data(), places.byte_count());
      BitReader in(bits.data(), places.byte_count());
      Scratch<std::uint32_t> out;
      std::size_t found = 0;
      ASSERT_TRUE(join_gaps(first.span(0, first.size), gap_code(pace), in, 1u << 23, out, found)) << pace;
      ASSERT_EQ(found, marks.size());
      ASSERT_TRUE(std::equal(marks.begin(), marks.end(), out.data()));
      BitReader again(bits.data(), places.byte_count());
      EXPECT_FALSE(join_gaps(first.span(0, first.size), gap_code(pace), again, marks.back(), out, found));
    }
    force_simd(detected_simd());
  }
}

TEST(CodecGaps, PaceIsEightTimesTheLogarithmOfTheHazard) {
  for (std::uint64_t universe : {100ull, 5000ull, 4'000'000ull}) {
    for (double p : {0.5, 0.3, 0.1, 0.01, 0.001}) {
      const std::uint64_t marks = static_cast<std::uint64_t>(p * static_cast<double>(universe));
      if (marks == 0) continue;
      const double exact = -8 * std::log2(-std::log1p(-static_cast<double>(marks) / static_cast<double>(universe)));
      EXPECT_NEAR(pace_for(marks, universe), exact, 1.1);
    }
  }
}

TEST(CodecSteps, TokensCoverEveryMagnitude) {
  for (std::uint64_t v : {0ull, 1ull, 7ull, 8ull, 11ull, 12ull, 15ull, 16ull, 23ull, 24ull, 65534ull, 65535ull,
                          0x7FFF'FFFFull, 0xFFFF'FFFFull, ~0ull - 1, ~0ull}) {
    const MagnitudeToken token = magnitude_token(v);
    ASSERT_LT(token.token, kMagnitudeTokens);
    EXPECT_EQ(extra_bits_of(token.token), token.extra_bits);
    EXPECT_EQ(base_of(token.token) + (v & ((std::uint64_t{1} << token.extra_bits) - 1)), v);
  }
}

// An update of fixed size u spacings is rounded to one of the two steps beside it, in proportion. Where the spacing is
// twice as large the same updates give the steps that coarser() derives.
TEST(CodecSteps, TablesFollowFromEachOther) {
  const auto chances = [](double largest) {  // updates uniform in [0, largest] spacings
    std::array<double, 16> chance{};
    constexpr int kParts = 20'000;
    for (int i = 0; i < kParts; ++i) {
      const double u = largest * (i + 0.5) / kParts, low = std::floor(u);
      if (low >= 1) chance[static_cast<std::size_t>(low) - 1] += 1 - (u - low);
      chance[static_cast<std::size_t>(low)] += u - low;
    }
    return chance;
  };
  const auto counts_of = [](const std::array<double, 16>& chance) {
    TokenCounts counts{};
    for (std::size_t k = 0; k < chance.size(); ++k) counts[magnitude_token(k).token] += static_cast<std::uint32_t>(10 * chance[k]);
    return counts;
  };
  for (double largest : {1.7, 3.1, 6.4}) {
    const TokenCounts fine = counts_of(chances(2 * largest)), coarse = counts_of(chances(largest));
    const std::uint64_t best = least_cost_of(coarse), derived = cost_of(coarse, StepTable::nearest(fine).derived_shares(-1), 16);
    EXPECT_LT(static_cast<double>(derived), 1.02 * static_cast<double>(best)) << largest;
    const std::uint64_t finest = least_cost_of(fine), interpolated = cost_of(fine, StepTable::nearest(coarse).derived_shares(1), 16);
    EXPECT_LT(static_cast<double>(interpolated), 1.1 * static_cast<double>(finest)) << largest;
  }
}

TEST(CodecSteps, TablesAreCarried) {
  TestRandom random(5);
  for (int round = 0; round < 100; ++round) {
    TokenCounts counts{};
    for (std::uint64_t n = 1 + random.below(20); n > 0; --n) {
      counts[random.below(kMagnitudeTokens)] = static_cast<std::uint32_t>(1 + random.below(1u << random.below(20)));
    }
    const StepTable table = StepTable::nearest(counts);
    BitWriter out;
    table.put(out);
    EXPECT_EQ(table.bits(), out.count());
    std::vector<std::uint8_t> bytes(out.byte_count() + 64);
    std::memcpy(bytes.data(), out.bytes().data(), out.byte_count());
    BitReader in(bytes.data(), out.byte_count());
    StepTable read;
    ASSERT_TRUE(StepTable::get(in, read));
    EXPECT_EQ(read.shares().share, table.shares().share);
    // Quarter octaves, and no share below 1 / 4096.
    std::uint64_t total = 0;
    for (std::uint32_t count : counts) total += count;
    EXPECT_LT(cost_of(counts, table.shares(), 64), least_cost_of(counts) + least_cost_of(counts) / 50 + 40 + total / 100);
  }
}

}  // namespace
}  // namespace p2pw::codec
