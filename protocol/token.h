// The join token: the one line that a new node is given. It says whom to dial and which keys to expect there, whom to
// believe (the publisher's key), and carries a secret that is good for one enrolment request in its time.
//
// Text: "p2pw1" and base64url without padding, so no shell changes it. Inside (numbers little-endian):
//   u8 count, per bootstrap daemon: u8 length, host, u16 port, 32 bytes node key
//   8 bytes key id, 32 bytes publisher key · u8 length, channel · 8 bytes enrolment id, 32 bytes enrolment secret
//   u64 expiry, ms since 1970 · 4 bytes: the beginning of SHA-256 over "p2pw1" and everything before
// The checksum finds cut or mistyped tokens; it is no protection, as the token itself is the secret.
#pragma once

#include <vector>

#include "protocol/endpoint.h"
#include "protocol/ids.h"
#include "protocol/signing.h"

namespace p2pw {

using EnrolmentId = Blob<struct EnrolmentIdTag, 8>;
using EnrolmentSecret = Blob<struct EnrolmentSecretTag, 32>;

struct JoinToken {
  struct Bootstrap {
    Endpoint endpoint;
    NodeKey node;
    auto operator<=>(const Bootstrap&) const = default;
  };
  static constexpr std::size_t kMaxBootstraps = 8;

  std::vector<Bootstrap> bootstraps;  // 1 to 8, to be tried in this order
  VerifyingKey publisher;
  Channel channel;
  EnrolmentId enrolment;
  EnrolmentSecret secret;
  WallTime expires;

  bool expired(WallTime now) const { return now >= expires; }
  // Errors: config, when a field is out of its bounds.
  Result<std::string> encode() const;
  // White space around it is ignored. Errors: usage (not a token, or a damaged one), unsupported (of a later format).
  // Expiry is left to the daemon that is asked: the joiner's clock may be wrong.
  static Result<JoinToken> parse(std::string_view text);
  auto operator<=>(const JoinToken&) const = default;
};

}  // namespace p2pw
