// Element types of the safetensors format.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace p2pw {

// Values are stable: they stand in frames and in the layout hash. `bytes` is for everything that is not a tensor.
enum class Dtype : std::uint8_t {
  bytes = 0,
  boolean = 1, u8 = 2, i8 = 3, f8_e5m2 = 4, f8_e4m3 = 5, f8_e8m0 = 6, f8_e4m3fnuz = 7, f8_e5m2fnuz = 8,
  i16 = 9, u16 = 10, f16 = 11, bf16 = 12, i32 = 13, u32 = 14, f32 = 15, c64 = 16, f64 = 17, i64 = 18, u64 = 19,
  f4 = 20, f6_e2m3 = 21, f6_e3m2 = 22,
};

std::optional<Dtype> dtype_from_name(std::string_view safetensors_name);  // "BF16"
std::string_view name_of(Dtype dtype);                                    // "BF16"; "bytes"
unsigned bits_of(Dtype dtype);                                            // 4 for F4; 8 for bytes

// Bytes of one element as the codec and the statistics count it: whole bytes, 1 for packed types.
unsigned element_bytes(Dtype dtype);

}  // namespace p2pw
