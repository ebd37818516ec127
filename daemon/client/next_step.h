// What to do after an error whose text ends with what the operating system said.
#pragma once

#include <string>

#include "protocol/result.h"

namespace p2pw {

// The message with a next step put behind it, when it ends with one of the system's usual texts ("No space left on
// device"); any other message names its own and stays as it is.
std::string with_next_step(const Error& error);

}  // namespace p2pw
