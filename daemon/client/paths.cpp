#include "daemon/client/paths.h"

#include <cstdlib>

namespace p2pw {

std::filesystem::path publisher_key_path(const std::filesystem::path& config_file) {
  return config_file.parent_path() / "publisher.key";
}

std::filesystem::path own_key_path(const std::filesystem::path& config_file, const Channel& channel) {
  return config_file.parent_path() / ("publisher-" + channel.str() + ".key");
}

std::filesystem::path publisher_key_path(const std::filesystem::path& config_file, const Channel& channel) {
  std::error_code ignored;
  auto own = own_key_path(config_file, channel);
  return std::filesystem::exists(own, ignored) ? own : publisher_key_path(config_file);
}

std::filesystem::path config_path(const std::string& given) {
  if (!given.empty()) return given;
  const char* from_environment = std::getenv("P2PW_CONFIG");
  if (from_environment != nullptr && *from_environment != '\0') return from_environment;
  return kDefaultConfigFile;
}

}  // namespace p2pw
