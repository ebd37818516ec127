#include "chunker/diff.h"
#include "chunker/layout.h"
#include "cli/console.h"
#include "cli/doctor_checks.h"

namespace p2pw::doctor {
namespace {

Result<std::string> digest_of(const std::filesystem::path& folder, const std::function<bool()>& stop) {
  P2PW_TRY(Layout layout, Layout::scan(folder));
  DiffOptions reading;
  reading.stop = stop;
  P2PW_TRY(SlabDigests digests, digest_checkpoint({folder, &layout}, reading));
  return digests.table_hash(layout.hash()).hex();
}

}  // namespace

void check_active_slots(const api::StatusReply& status, const std::function<bool()>& stop, Findings& findings) {
  for (const api::ChannelStatus& channel : status.channels) {
    if (channel.current.empty() || channel.active_digest.empty()) continue;
    std::string what = "active slot of " + channel.channel;
    // The slot itself: `current` may be switched while it is read.
    std::error_code error;
    std::filesystem::path slot = std::filesystem::canonical(channel.current, error);
    if (error) {
      findings.push_back({what, Verdict::bad, channel.current + ": " + error.message(),
                          "p2pw activate --channel " + channel.channel + " switches to what is staged"});
      continue;
    }
    auto digest = digest_of(slot, stop);
    std::string version = "version " + std::to_string(channel.version_active);
    std::filesystem::path now = std::filesystem::canonical(channel.current, error);
    if (error || now != slot) {
      findings.push_back({what, Verdict::warning, "was replaced while it was read", "run p2pw doctor again"});
    } else if (!digest) {
      findings.push_back({what, Verdict::bad, digest.error().message,
                          "p2pw rollback --local goes back to the other slot; without one, stop the daemon, remove the slots folder "
                          "and start it: the node joins anew from its neighbours"});
    } else if (*digest != channel.active_digest) {
      findings.push_back({what, Verdict::bad, "is not " + version + " as it was published: its digest is " + digest->substr(0, 16) +
                                                  ", the seal says " + channel.active_digest.substr(0, 16),
                          "somebody wrote into " + slot.string() + ", or the disk is bad: stop the daemon, remove that folder and start "
                          "it, and the node rebuilds it"});
    } else {
      findings.push_back({what, Verdict::good, "is " + version + ", bit for bit (digest " + digest->substr(0, 16) + ")", ""});
    }
  }
}

}  // namespace p2pw::doctor
