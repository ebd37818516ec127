// The web page that the daemon serves over loopback: one static document without requests to anywhere but this API. It holds
// nothing secret and is served without the token; what it shows it fetches with the token.
#pragma once

#include <string_view>

namespace p2pw {

std::string_view dashboard_page();

}  // namespace p2pw
