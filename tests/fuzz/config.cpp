// The configuration file: whatever it says, a Config or one error; what is read is written and read again the same.
#include "daemon/client/config.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto config = p2pw::parse_config({reinterpret_cast<const char*>(data), size}, "/etc/p2pw/p2pw.toml");
  if (!config) {
    if (config.error().message.empty()) std::abort();
    return 0;
  }
  std::string text = p2pw::to_toml(*config);
  auto again = p2pw::parse_config(text, "/etc/p2pw/p2pw.toml");
  if (!again || p2pw::to_toml(*again) != text) std::abort();
  return 0;
}
