#include "chunker/text.h"

namespace p2pw {

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
    unsigned lead = byte(i);
    std::size_t more = lead < 0x80 ? 0 : lead < 0xc2 ? 9 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : lead < 0xf5 ? 3 : 9;
    if (more == 9) return false;
    unsigned low = 0x80, high = 0xbf;  // bounds of the second byte: no overlong form, no surrogate, below U+110000
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    for (std::size_t k = 1; k <= more; ++k) {
      unsigned b = byte(i + k);
      if (b < low || b > high) return false;
      low = 0x80, high = 0xbf;
    }
    i += more + 1;
  }
  return true;
}

std::string printable(std::string_view name) {
  constexpr std::size_t kLongest = 120;
  std::string out(name.substr(0, kLongest));
  if (name.size() > kLongest) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
    out += "...";
  }
  bool valid = is_utf8(out);
  for (char& c : out) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !valid)) c = '?';
  }
  return out;
}

}  // namespace p2pw
