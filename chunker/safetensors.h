// Strict reading of one safetensors header (huggingface/safetensors): 8 bytes little-endian length N, N bytes of JSON
// that maps tensor names to dtype, shape and data_offsets, then the data.
//
// What is checked: N at most limits::kMaxSafetensorsHeader and inside the file; JSON is UTF-8, starts with '{' and has
// nothing but white space after its end; no key twice; `__metadata__` maps strings to strings; every dtype known; shape
// times dtype gives the bytes that data_offsets span, without overflow and in whole bytes; the spans lie end to end from
// 0 to the end of the file. Alignment and order of the JSON are free. Keys of a tensor that the format does not know are
// skipped: they travel with the verbatim header.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chunker/dtype.h"
#include "protocol/ids.h"

namespace p2pw {

struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::bytes;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  // in the file, header included
  std::uint64_t end = 0;
};

inline constexpr std::uint64_t kSafetensorsPrefix = 8;  // the length field

// The size of the whole header (prefix included) that the first 8 bytes of a file announce. `file` names it in errors.
// Errors, with `code`: shorter than 8 bytes, over the limit, past the end of the file.
Result<std::uint64_t> safetensors_header_bytes(ByteView prefix, std::uint64_t file_bytes, std::string_view file,
                                               ErrorCode code);

// The tensors in order of their offsets. `header` is prefix and JSON, all of it. Every error has `code` (bad_input for
// a user's file, malformed for bytes from outside) and names file, tensor and reason.
Result<std::vector<TensorEntry>> parse_safetensors_header(ByteView header, std::uint64_t file_bytes,
                                                          std::string_view file, ErrorCode code);

// True for names that are read as tensor files.
inline bool is_safetensors_name(std::string_view path) { return path.ends_with(".safetensors"); }

}  // namespace p2pw
