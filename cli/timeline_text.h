// The timeline of a version, for people.
#pragma once

#include <string>

#include "daemon/client/api.h"

namespace p2pw {

std::string timeline_text(const api::TimelineReply& timeline);

}  // namespace p2pw
