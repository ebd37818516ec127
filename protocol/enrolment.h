// The enrolments that a bootstrap daemon has given out in join tokens and still honours. A plain table: the clock is an
// argument, and the daemon keeps the text of it in its state folder (mode 0600, as it holds the secrets).
#pragma once

#include <map>

#include "protocol/token.h"

namespace p2pw {

struct Enrolment {
  EnrolmentId id;
  EnrolmentSecret secret;
  WallTime expires;
  std::uint32_t uses_left = 1;
  std::vector<NodeKey> enrolled;  // nodes that have used it

  // With a fresh random id and secret.
  static Enrolment make(WallTime expires, std::uint32_t uses);
};

class Enrolments {
 public:
  static constexpr std::size_t kMaxOutstanding = 1024;
  static constexpr std::uint32_t kMaxUses = 10'000;

  // Forgets expired ones first. Errors: busy (too many outstanding), usage (uses out of range, id taken).
  Status add(Enrolment enrolment, WallTime now);

  // The secret that the bearer has to prove, as long as the enrolment has not expired. That every use is spent is
  // told by use(), after the proof, and so to nobody who does not hold the secret.
  std::optional<EnrolmentSecret> check(const EnrolmentId& id, WallTime now) const;

  // Spends one use, after the proof. A node that has used it before is let in again at no cost until it expires: its
  // first answer may have been lost. Errors: not_found, timed_out, untrusted (all uses spent).
  Status use(const EnrolmentId& id, const NodeKey& node, WallTime now);

  void forget_expired(WallTime now);
  std::size_t size() const { return table_.size(); }

  std::string text() const;
  // What text() wrote. Errors: config.
  static Result<Enrolments> parse(std::string_view text);

 private:
  std::map<EnrolmentId, Enrolment> table_;
};

}  // namespace p2pw
