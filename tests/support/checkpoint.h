// Small checkpoints for tests: well-formed ones from a list of tensors, and broken ones byte by byte.
#pragma once

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "chunker/dtype.h"
#include "protocol/ids.h"

namespace p2pw::testing {

inline constexpr Dtype kAllDtypes[] = {
    Dtype::boolean, Dtype::u8,  Dtype::i8,  Dtype::f8_e5m2, Dtype::f8_e4m3, Dtype::f8_e8m0, Dtype::f8_e4m3fnuz,
    Dtype::f8_e5m2fnuz, Dtype::i16, Dtype::u16, Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::u32,
    Dtype::f32, Dtype::c64, Dtype::f64, Dtype::i64, Dtype::u64, Dtype::f4, Dtype::f6_e2m3, Dtype::f6_e3m2};

struct TestTensor {
  std::string name;
  Dtype dtype = Dtype::bf16;
  std::vector<std::uint64_t> shape;
  Bytes data;  // of the right size
};

// A tensor of random bytes. `elements` of packed types is rounded up until they fill whole bytes.
TestTensor random_tensor(std::mt19937_64& random, std::string name, Dtype dtype, std::uint64_t elements);

// The bytes of a safetensors file: tensors in the order given, header padded to 8 bytes if `padded`.
std::string safetensors(const std::vector<TestTensor>& tensors, bool padded = true);
// A file of the given header JSON and data, whatever they say.
std::string raw_safetensors(const std::string& json, const std::string& data);

void write_file(const std::filesystem::path& path, std::string_view contents);  // makes folders
std::string read_text(const std::filesystem::path& path);
// Every regular file below `directory` with its contents.
std::map<std::string, std::string> tree(const std::filesystem::path& directory);

// Two shards, an index, a config and a tokenizer in a folder; a few thousand weights.
void write_small_checkpoint(const std::filesystem::path& directory, std::mt19937_64& random);

// Changes about `share` of the bytes of every file's data section (header kept).
void change_weights(const std::filesystem::path& directory, std::mt19937_64& random, double share);

// A new one each time; print it: SCOPED_TRACE(::testing::Message() << "seed " << seed).
std::uint64_t fresh_seed();

}  // namespace p2pw::testing
