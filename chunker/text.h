// Names that come from files and that end in messages.
#pragma once

#include <string>
#include <string_view>

namespace p2pw {

bool is_utf8(std::string_view text);

// `name` made fit for a message: valid UTF-8 of at most about 120 bytes, control and stray bytes as '?'.
std::string printable(std::string_view name);

}  // namespace p2pw
