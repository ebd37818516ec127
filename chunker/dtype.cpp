#include "chunker/dtype.h"

namespace p2pw {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  unsigned bits;
};

constexpr DtypeRow kRows[] = {
    {Dtype::bytes, "bytes", 8},
    {Dtype::boolean, "BOOL", 8},
    {Dtype::u8, "U8", 8},
    {Dtype::i8, "I8", 8},
    {Dtype::f8_e5m2, "F8_E5M2", 8},
    {Dtype::f8_e4m3, "F8_E4M3", 8},
    {Dtype::f8_e8m0, "F8_E8M0", 8},
    {Dtype::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    {Dtype::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    {Dtype::i16, "I16", 16},
    {Dtype::u16, "U16", 16},
    {Dtype::f16, "F16", 16},
    {Dtype::bf16, "BF16", 16},
    {Dtype::i32, "I32", 32},
    {Dtype::u32, "U32", 32},
    {Dtype::f32, "F32", 32},
    {Dtype::c64, "C64", 64},
    {Dtype::f64, "F64", 64},
    {Dtype::i64, "I64", 64},
    {Dtype::u64, "U64", 64},
    {Dtype::f4, "F4", 4},
    {Dtype::f6_e2m3, "F6_E2M3", 6},
    {Dtype::f6_e3m2, "F6_E3M2", 6},
};

constexpr bool rows_follow_the_enum() {
  unsigned value = 0;
  for (const DtypeRow& row : kRows) {
    if (static_cast<unsigned>(row.dtype) != value++) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum(), "row_of() indexes by value");

const DtypeRow& row_of(Dtype dtype) { return kRows[static_cast<unsigned>(dtype)]; }

}  // namespace

std::optional<Dtype> dtype_from_name(std::string_view safetensors_name) {
  for (const DtypeRow& row : kRows) {
    if (row.dtype != Dtype::bytes && row.name == safetensors_name) return row.dtype;
  }
  return std::nullopt;
}

std::string_view name_of(Dtype dtype) { return row_of(dtype).name; }

unsigned bits_of(Dtype dtype) { return row_of(dtype).bits; }

unsigned element_bytes(Dtype dtype) {
  unsigned bits = bits_of(dtype);
  return bits < 8 ? 1 : bits / 8;
}

}  // namespace p2pw
