// The state file of a slot: what stands in its checkpoint folder. Little-endian, in this order:
//   "P2PWSLOT", format u32, phase u8, base version u64, base seal 32, base table hash 32, layout hash 32,
//   byte slabs u32, tensor slabs u32, target version u64, target run 32,
//   digests 16 each (byte slabs, then tensor slabs), SHA-256 of all before.
// Base is the version that the slot holds (whole) or came from (patching; version 0: from nothing).
#pragma once

#include "protocol/hash.h"
#include "protocol/ids.h"

namespace p2pw {

inline constexpr std::uint32_t kSlotStateFormat = 1;

enum class SlotName : std::uint8_t { a = 0, b = 1 };
std::string_view name_of(SlotName name);  // "a", "b"
inline SlotName other(SlotName name) { return name == SlotName::a ? SlotName::b : SlotName::a; }

struct SlotState {
  bool whole = false;
  Version base;
  SealHash base_seal;
  Sha256 base_table_hash;
  LayoutHash layout;
  std::vector<Digest> byte_digests, tensor_digests;
  Version target;
  RunId target_run;

  Bytes encode() const;
  // Errors: malformed, integrity (checksum), unsupported (another format), limit.
  static Result<SlotState> decode(ByteView bytes);
  bool operator==(const SlotState&) const = default;
};

}  // namespace p2pw
