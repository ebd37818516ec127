// --start of `init` and `join`, --restart of `channel add`: hands the machine that was just set up to systemd.
#pragma once

#include <string>

#include "daemon/client/config.h"
#include "protocol/result.h"

namespace p2pw::service {

// Before anything is written: whether the option can do what it says. The unit reads the configuration at its usual place,
// and only root may enable it. Error: usage.
Status can_start(const Config& config, const std::string& option = "--start");

// `systemctl enable --now p2pwd`; comes back when the daemon has said that it is ready. What systemctl prints goes to
// standard error. Error: failed, with what to type instead.
Status start();
// `systemctl restart p2pwd`, likewise.
Status restart();

}  // namespace p2pw::service
