// One picture of `p2pw top`. Pure.
#pragma once

#include <string>
#include <vector>

#include "daemon/client/api.h"

namespace p2pw {

// At most `height` lines of at most `width` bytes, without control characters. Rates are those since `before` (null: none
// yet).
std::vector<std::string> top_frame(const api::StatusReply& now, const api::StatusReply* before, std::size_t width,
                                   std::size_t height);

}  // namespace p2pw
