#pragma once

namespace p2pw {

inline constexpr const char* kSoftwareVersion = P2PW_VERSION;  // from CMake

}  // namespace p2pw
