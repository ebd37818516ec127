#include "chunker/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "chunker/name_set.h"
#include "chunker/text.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

using Json = nlohmann::json;

// Where the parser stands. Every value is consumed in exactly one of these.
enum class At {
  start,          // before the top-level object
  top,            // in it: keys are tensor names or __metadata__
  tensor_value,   // after a tensor name: expects '{'
  tensor,         // in a tensor's object
  dtype,          // expects the dtype string
  shape_value,    // expects '['
  shape,          // in the shape
  offsets_value,  // expects '['
  offsets,        // in data_offsets
  meta_value,     // after __metadata__: expects '{'
  meta,           // in it
  meta_string,    // expects a string
  skipped,        // in or before the value of an unknown key, depth_ brackets deep
  end,            // after the top-level object
};

class HeaderSax : public nlohmann::json_sax<Json> {
 public:
  std::vector<TensorEntry> tensors;  // begin and end as in data_offsets
  std::string reason;                // why parsing stopped

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_integer(number_integer_t) override { return scalar("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return scalar("a number that is not a 64-bit unsigned integer");
  }
  bool binary(binary_t&) override { return stop("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (at_ == At::shape) {
      if (current().shape.size() == limits::kMaxTensorRank) return stop("its shape has more than 64 dimensions");
      current().shape.push_back(value);
      return true;
    }
    if (at_ == At::offsets) {
      if (offsets_ == 2) return stop("data_offsets has more than two numbers");
      (offsets_++ == 0 ? current().begin : current().end) = value;
      return true;
    }
    return scalar("a number");
  }

  bool string(string_t& value) override {
    if (at_ == At::dtype) {
      auto dtype = dtype_from_name(value);
      if (!dtype) return stop("unknown dtype \"" + printable(value) + "\"");
      current().dtype = *dtype;
      at_ = At::tensor;
      return true;
    }
    if (at_ == At::meta_string) {
      at_ = At::meta;
      return true;
    }
    return scalar("a string");
  }

  bool start_object(std::size_t) override {
    switch (at_) {
      case At::start: at_ = At::top; return true;
      case At::tensor_value: at_ = At::tensor; return true;
      case At::meta_value: at_ = At::meta; return true;
      case At::skipped: ++depth_; return true;
      default: return scalar("an object");
    }
  }

  bool end_object() override {
    switch (at_) {
      case At::top: at_ = At::end; return true;
      case At::meta: at_ = At::top; return true;
      case At::tensor: at_ = At::top; return complete();
      default: return leave_skipped();
    }
  }

  bool start_array(std::size_t) override {
    switch (at_) {
      case At::shape_value: at_ = At::shape; return true;
      case At::offsets_value: at_ = At::offsets; return true;
      case At::skipped: ++depth_; return true;
      default: return scalar("an array");
    }
  }

  bool end_array() override {
    switch (at_) {
      case At::shape: at_ = At::tensor; return true;
      case At::offsets:
        if (offsets_ != 2) return stop("data_offsets needs two numbers");
        at_ = At::tensor;
        return true;
      default: return leave_skipped();
    }
  }

  bool key(string_t& name) override {
    switch (at_) {
      case At::top: return top_key(name);
      case At::tensor: return tensor_key(name);
      case At::meta:
        if (!meta_keys_.insert(name).second) return stop("__metadata__ has the key \"" + printable(name) + "\" twice");
        at_ = At::meta_string;
        return true;
      default: return true;  // inside a skipped value
    }
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (reason.empty()) reason = "the header is not valid UTF-8 JSON at byte " + std::to_string(position);
    return false;
  }

 private:
  TensorEntry& current() { return tensors.back(); }

  // Names are compared when all are there.
  bool top_key(string_t& name) {
    if (name == "__metadata__") {
      if (std::exchange(has_meta_, true)) return stop_plain("the key \"__metadata__\" occurs twice");
      at_ = At::meta_value;
      return true;
    }
    if (tensors.size() == limits::kMaxTensors) return stop_plain("more than 16,000,000 tensors");
    tensors.emplace_back().name = std::move(name);
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offsets_ = 0;
    at_ = At::tensor_value;
    return true;
  }

  bool tensor_key(const string_t& name) {
    auto field = [&](bool& seen, At next) {
      if (seen) return stop("the key \"" + name + "\" occurs twice");
      seen = true;
      at_ = next;
      return true;
    };
    if (name == "dtype") return field(has_dtype_, At::dtype);
    if (name == "shape") return field(has_shape_, At::shape_value);
    if (name == "data_offsets") return field(has_offsets_, At::offsets_value);
    at_ = At::skipped;
    depth_ = 0;
    return true;
  }

  bool complete() {
    if (!has_dtype_) return stop("dtype is missing");
    if (!has_shape_) return stop("shape is missing");
    if (!has_offsets_) return stop("data_offsets is missing");
    return true;
  }

  // A value that is not welcome here, unless it lies under a key that is skipped.
  bool scalar(const std::string& what) {
    if (at_ == At::skipped) {
      if (depth_ == 0) at_ = At::tensor;
      return true;
    }
    switch (at_) {
      case At::start: return stop_plain("the header must be a JSON object, not " + what);
      case At::tensor_value: return stop("expected an object, found " + what);
      case At::dtype: return stop("dtype must be a string, not " + what);
      case At::shape_value:
      case At::shape: return stop("shape must be an array of unsigned integers, found " + what);
      case At::offsets_value:
      case At::offsets: return stop("data_offsets must be an array of two unsigned integers, found " + what);
      case At::meta_value: return stop_plain("__metadata__ must be an object, not " + what);
      case At::meta_string: return stop_plain("__metadata__ must map strings to strings, found " + what);
      default: return stop_plain("unexpected " + what);
    }
  }

  bool leave_skipped() {
    if (at_ != At::skipped || depth_ == 0) return stop_plain("unexpected closing bracket");
    if (--depth_ == 0) at_ = At::tensor;
    return true;
  }

  bool stop_plain(std::string why) {
    reason = std::move(why);
    return false;
  }
  bool stop(const std::string& why) {
    if (tensors.empty() || at_ == At::meta) return stop_plain(why);
    return stop_plain("tensor \"" + printable(current().name) + "\": " + why);
  }

  At at_ = At::start;
  std::size_t depth_ = 0;
  int offsets_ = 0;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;  // of the current tensor
  bool has_meta_ = false;
  std::unordered_set<std::string> meta_keys_;
};

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

std::optional<std::string_view> repeated_name(const std::vector<TensorEntry>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorEntry& t : tensors) names.push_back(t.name);
  return NameSet(names).repeated();
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
  // The JSON library takes a NUL for the end of its input, so what follows one would go unread.
  if (json.find('\0') != std::string_view::npos) return refuse("the header holds a NUL byte");

  HeaderSax sax;
  try {
    if (!Json::sax_parse(json.begin(), json.end(), &sax)) return refuse(sax.reason);
  } catch (const std::exception& e) {
    return refuse(std::string("the header cannot be read: ") + e.what());
  }

  std::vector<TensorEntry> tensors = std::move(sax.tensors);
  if (auto twice = repeated_name(tensors)) return refuse("the key \"" + printable(*twice) + "\" occurs twice");
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
