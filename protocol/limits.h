// Every bound on outside input, in one place. A decoder never allocates or loops by a length that it has not checked
// against one of these (or against the bytes that are really there).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace p2pw::limits {

inline constexpr std::size_t kMaxNameLength = 64;          // channel and region names
inline constexpr std::size_t kMaxRecordBytes = 4096;       // a signed record with its envelope
inline constexpr std::size_t kMaxMetaBytes = 16u << 20;    // one bundle meta
inline constexpr std::size_t kMaxMessageBytes = 64u << 10; // the header of a link message, payload apart
inline constexpr std::size_t kMaxPaddingBytes = 64u << 10;
inline constexpr std::size_t kMaxPayloadBytes = 16u << 20; // the payload of a link message: a chunk, a meta, a slab

inline constexpr std::uint32_t kMinChunkBytes = 16u << 10;  // one BEP 52 leaf
inline constexpr std::uint32_t kMaxChunkBytes = 4u << 20;
inline constexpr std::uint32_t kDefaultChunkBytes = 1u << 20;
inline constexpr std::uint64_t kMaxBundleBytes = 1ull << 30;
inline constexpr std::uint32_t kMaxBundles = 1u << 16;          // of one run
inline constexpr std::uint32_t kMaxFramesPerBundle = 1u << 20;

inline constexpr std::uint32_t kSlabBytes = 8u << 20;           // the largest slab
inline constexpr std::size_t kMaxFrameOverhead = 4096;          // a frame is never larger than its slab plus this

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;
inline constexpr std::size_t kMaxFiles = 100'000;               // of one checkpoint
inline constexpr std::size_t kMaxTensors = 16'000'000;
inline constexpr std::size_t kMaxTensorRank = 64;
inline constexpr std::size_t kMaxPathLength = 1024;             // of one file inside a checkpoint
inline constexpr std::size_t kMaxSlabs = 4u << 20;              // of one checkpoint, byte and tensor slabs each
inline constexpr std::uint64_t kMaxCheckpointBytes = 32ull << 40;
inline constexpr std::uint64_t kMaxSideFileBytes = 4ull << 30;  // config, tokenizer, index

inline constexpr std::size_t kMaxMembers = 100'000;             // of one fleet
inline constexpr std::size_t kMaxTokenLength = 4096;
inline constexpr std::size_t kMaxConfigBytes = 1u << 20;
inline constexpr std::size_t kMaxKeyFileBytes = 4096;

inline constexpr std::chrono::minutes kMaxClockCorrection{5};
inline constexpr std::chrono::seconds kHeadLifetime{60};
inline constexpr std::chrono::seconds kHeadRenewal{20};

}  // namespace p2pw::limits
