#include "chunker/safetensors.h"

#include <simdjson.h>

#include <algorithm>

#include "chunker/name_set.h"
#include "chunker/text.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

namespace dom = simdjson::dom;

std::string kind_of(dom::element value) {
  switch (value.type()) {
    case dom::element_type::ARRAY: return "an array";
    case dom::element_type::OBJECT: return "an object";
    case dom::element_type::STRING: return "a string";
    case dom::element_type::BOOL: return "a boolean";
    case dom::element_type::NULL_VALUE: return "null";
    case dom::element_type::INT64: return value.get_int64().value_unsafe() < 0 ? "a negative number" : "a number";
    case dom::element_type::UINT64: return "a number";
    case dom::element_type::DOUBLE: return "a fraction";
  }
  return "something else";
}

// The parts of a tensor's entry. Each returns why its value is not good; empty when it is.
std::string read_dtype(dom::element value, TensorEntry& tensor) {
  std::string_view name;
  if (value.get_string().get(name) != simdjson::SUCCESS) return "dtype must be a string, not " + kind_of(value);
  auto dtype = dtype_from_name(name);
  if (!dtype) return "unknown dtype \"" + printable(name) + "\"";
  tensor.dtype = *dtype;
  return {};
}

std::string read_shape(dom::element value, TensorEntry& tensor) {
  dom::array dims;
  if (value.get_array().get(dims) != simdjson::SUCCESS) {
    return "shape must be an array of unsigned integers, found " + kind_of(value);
  }
  tensor.shape.reserve(std::min(dims.size(), limits::kMaxTensorRank));
  for (dom::element dim : dims) {
    std::uint64_t number = 0;
    if (dim.get_uint64().get(number) != simdjson::SUCCESS) {
      return "shape must be an array of unsigned integers, found " + kind_of(dim);
    }
    if (tensor.shape.size() == limits::kMaxTensorRank) return "its shape has more than 64 dimensions";
    tensor.shape.push_back(number);
  }
  return {};
}

std::string read_offsets(dom::element value, TensorEntry& tensor) {
  dom::array pair;
  std::string expected = "data_offsets must be an array of two unsigned integers, found ";
  if (value.get_array().get(pair) != simdjson::SUCCESS) return expected + kind_of(value);
  std::size_t count = 0;
  for (dom::element offset : pair) {
    if (count == 2) return "data_offsets has more than two numbers";
    if (offset.get_uint64().get(count++ == 0 ? tensor.begin : tensor.end) != simdjson::SUCCESS) {
      return expected + kind_of(offset);
    }
  }
  return count == 2 ? "" : "data_offsets needs two numbers";
}

std::string read_tensor(dom::element value, TensorEntry& tensor) {
  dom::object fields;
  if (value.get_object().get(fields) != simdjson::SUCCESS) return "expected an object, found " + kind_of(value);
  struct Part {
    std::string_view key;
    std::string (*read)(dom::element, TensorEntry&);
    bool seen = false;
  };
  Part parts[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
  for (dom::key_value_pair field : fields) {
    for (Part& part : parts) {
      if (field.key != part.key) continue;
      if (std::exchange(part.seen, true)) return "the key \"" + std::string(part.key) + "\" occurs twice";
      std::string why = part.read(field.value, tensor);
      if (!why.empty()) return why;
    }
  }
  for (const Part& part : parts) {
    if (!part.seen) return std::string(part.key) + " is missing";
  }
  return {};
}

std::string check_metadata(dom::element value) {
  dom::object fields;
  if (value.get_object().get(fields) != simdjson::SUCCESS) {
    return "__metadata__ must be an object, not " + kind_of(value);
  }
  std::vector<std::string_view> keys;
  for (dom::key_value_pair field : fields) {
    if (!field.value.is_string()) return "__metadata__ must map strings to strings, found " + kind_of(field.value);
    keys.push_back(field.key);
  }
  if (auto twice = NameSet(keys).repeated()) return "__metadata__ has the key \"" + printable(*twice) + "\" twice";
  return {};
}

// The entries of the whole header, begin and end as in data_offsets.
std::string read_entries(dom::object header, std::vector<TensorEntry>& tensors) {
  std::vector<std::string_view> keys;
  for (dom::key_value_pair field : header) {
    keys.push_back(field.key);
    if (field.key == "__metadata__") {
      std::string why = check_metadata(field.value);
      if (!why.empty()) return why;
      continue;
    }
    if (tensors.size() == limits::kMaxTensors) return "more than 16,000,000 tensors";
    TensorEntry& tensor = tensors.emplace_back();
    tensor.name = field.key;
    std::string why = read_tensor(field.value, tensor);
    if (!why.empty()) return "tensor \"" + printable(field.key) + "\": " + why;
  }
  if (auto twice = NameSet(keys).repeated()) return "the key \"" + printable(*twice) + "\" occurs twice";
  return {};
}

// Bytes of a tensor, or why there is no such number.
Result<std::uint64_t> tensor_bytes(Dtype dtype, const std::vector<std::uint64_t>& shape) {
  std::uint64_t elements = 1, bits = 0;
  for (std::uint64_t dim : shape) {
    if (__builtin_mul_overflow(elements, dim, &elements)) return fail(ErrorCode::failed, "its shape overflows");
  }
  if (__builtin_mul_overflow(elements, std::uint64_t(bits_of(dtype)), &bits)) {
    return fail(ErrorCode::failed, "its size overflows");
  }
  if (bits % 8 != 0) {
    return fail(ErrorCode::failed, std::to_string(elements) + " elements of " + std::string(name_of(dtype)) +
                                       " do not fill whole bytes");
  }
  return bits / 8;
}

// Why this tensor cannot be at its offsets in a data section of `data_bytes`; empty when all is well.
std::string check_tensor(const TensorEntry& t, std::uint64_t data_bytes) {
  if (t.begin > t.end) return "data_offsets run backwards";
  if (t.end > data_bytes) {
    return "data_offsets end at " + std::to_string(t.end) + ", but the file has only " + std::to_string(data_bytes) +
           " bytes of data (cut short?)";
  }
  auto bytes = tensor_bytes(t.dtype, t.shape);
  if (!bytes) return bytes.error().message;
  if (*bytes != t.end - t.begin) {
    return "shape and dtype need " + std::to_string(*bytes) + " bytes, data_offsets span " +
           std::to_string(t.end - t.begin);
  }
  return {};
}

Status check_spans(const std::vector<TensorEntry>& tensors, std::uint64_t data_bytes, std::string_view file,
                   ErrorCode code) {
  std::uint64_t position = 0;
  for (const TensorEntry& t : tensors) {
    if (t.begin != position) {
      return fail(code, std::string(file) + ": tensor \"" + printable(t.name) + "\": data_offsets " +
                            (t.begin > position ? "leave a hole before it" : "overlap the tensor before it"));
    }
    position = t.end;
  }
  if (position != data_bytes) {
    return fail(code, std::string(file) + ": " + std::to_string(data_bytes - position) +
                          " bytes after the last tensor; a safetensors file ends with it");
  }
  return {};
}

}  // namespace

Result<std::uint64_t> safetensors_header_bytes(ByteView prefix, std::uint64_t file_bytes, std::string_view file,
                                               ErrorCode code) {
  auto refuse = [&](std::string why) { return fail(code, std::string(file) + ": " + std::move(why)); };
  if (prefix.size() < kSafetensorsPrefix || file_bytes < kSafetensorsPrefix) {
    return refuse("too short for a safetensors file (" + std::to_string(file_bytes) + " bytes)");
  }
  std::uint64_t json_bytes = 0;
  for (int i = 7; i >= 0; --i) json_bytes = json_bytes << 8 | std::to_integer<std::uint64_t>(prefix[i]);
  if (json_bytes > limits::kMaxSafetensorsHeader) {
    return refuse("header length " + std::to_string(json_bytes) + " is over the limit of 100000000 bytes");
  }
  if (json_bytes > file_bytes - kSafetensorsPrefix) {
    return refuse("header length " + std::to_string(json_bytes) + " runs past the end of the file (" +
                  std::to_string(file_bytes) + " bytes)");
  }
  return kSafetensorsPrefix + json_bytes;
}

Result<std::vector<TensorEntry>> parse_safetensors_header(ByteView header, std::uint64_t file_bytes,
                                                          std::string_view file, ErrorCode code) {
  auto refuse = [&](std::string why) { return fail(code, std::string(file) + ": " + std::move(why)); };
  P2PW_TRY(std::uint64_t header_bytes, safetensors_header_bytes(header, file_bytes, file, code));
  if (header_bytes != header.size()) return refuse("the header is not as long as it says");
  std::string_view json = as_text(header.subspan(kSafetensorsPrefix));
  if (json.empty() || json[0] != '{') return refuse("the header does not start with '{'");

  dom::parser parser;
  dom::object root;
  simdjson::error_code bad = parser.parse(json.data(), json.size()).get_object().get(root);
  if (bad != simdjson::SUCCESS) {
    return refuse(std::string("the header is not valid UTF-8 JSON: ") + simdjson::error_message(bad));
  }
  std::vector<TensorEntry> tensors;
  if (std::string why = read_entries(root, tensors); !why.empty()) return refuse(why);
  std::uint64_t data_bytes = file_bytes - header_bytes;
  for (const TensorEntry& t : tensors) {
    std::string why = check_tensor(t, data_bytes);
    if (!why.empty()) return refuse("tensor \"" + printable(t.name) + "\": " + why);
  }
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  P2PW_CHECK(check_spans(tensors, data_bytes, file, code));
  for (TensorEntry& t : tensors) {
    t.begin += header_bytes;
    t.end += header_bytes;
  }
  return tensors;
}

}  // namespace p2pw
