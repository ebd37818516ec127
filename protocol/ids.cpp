#include "protocol/ids.h"

#include "protocol/limits.h"

namespace p2pw {

std::string_view name_of(Kind kind) { return kind == Kind::anchor ? "anchor" : "delta"; }

template <class Tag>
Result<Name<Tag>> Name<Tag>::parse(std::string_view text) {
  auto lower_or_digit = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  bool good = !text.empty() && text.size() <= limits::kMaxNameLength && lower_or_digit(text[0]);
  for (char c : text) good = good && (lower_or_digit(c) || c == '.' || c == '_' || c == '-');
  if (!good) {
    return fail(ErrorCode::usage, "\"" + std::string(text.substr(0, 80)) +
                                      "\" is not a name: use 1 to 64 characters of a-z 0-9 . _ -, "
                                      "starting with a letter or digit");
  }
  return Name(std::string(text));
}
template class Name<ChannelTag>;
template class Name<RegionTag>;

std::string to_hex(ByteView bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (std::byte b : bytes) {
    out += kDigits[std::to_integer<unsigned>(b) >> 4];
    out += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

std::optional<Bytes> from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  Bytes out(hex.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<std::byte>(high * 16 + low);
  }
  return out;
}

}  // namespace p2pw
