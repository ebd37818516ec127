// Headers of safetensors files, with the whole input as header and, to come past the sizes, as its JSON alone.
#include "chunker/safetensors.h"

#include <cstdlib>

namespace {

void check(p2pw::ByteView header, std::uint64_t file_bytes) {
  auto tensors = p2pw::parse_safetensors_header(header, file_bytes, "f", p2pw::ErrorCode::malformed);
  if (!tensors) {
    if (tensors.error().code != p2pw::ErrorCode::malformed || tensors.error().message.empty()) std::abort();
    return;
  }
  std::uint64_t at = header.size();
  for (const p2pw::TensorEntry& tensor : *tensors) {
    if (tensor.begin != at || tensor.end < tensor.begin) std::abort();
    at = tensor.end;
  }
  if (at != file_bytes) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  p2pw::ByteView input = std::as_bytes(std::span(data, size));
  check(input, size);
  if (size < 2) return 0;
  // The first two bytes say how much data follows the header.
  std::uint64_t data_bytes = data[0] + 256u * data[1];
  p2pw::ByteView json = input.subspan(2);
  p2pw::Bytes header(p2pw::kSafetensorsPrefix);
  for (std::size_t i = 0; i < header.size(); ++i) header[i] = static_cast<std::byte>(json.size() >> (8 * i));
  header.insert(header.end(), json.begin(), json.end());
  check(header, header.size() + data_bytes);
  return 0;
}
