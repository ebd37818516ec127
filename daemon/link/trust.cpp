#include "daemon/link/trust.h"

#include <algorithm>

#include "daemon/link/printable.h"
#include "protocol/limits.h"
#include "protocol/links.pb.h"

namespace p2pw {
namespace {

constexpr int kMaxEndpoints = 16;
constexpr int kMaxChannels = 256;
constexpr std::size_t kMaxAddressLength = 255;  // a DNS name
constexpr std::size_t kMaxFreeText = 128;

bool endpoint_ok(const wire::Endpoint& endpoint) {
  return endpoint.address().size() <= kMaxAddressLength && endpoint.port() <= 65535;
}

bool shape_ok(const wire::Hello& hello) {
  return hello.endpoints_size() <= kMaxEndpoints && hello.channels_size() <= kMaxChannels &&
         hello.software().size() <= kMaxFreeText && hello.name().size() <= kMaxFreeText &&
         endpoint_ok(hello.swarm()) &&
         std::all_of(hello.endpoints().begin(), hello.endpoints().end(), endpoint_ok);
}

}  // namespace

const FleetSecret* LinkTrust::secret(const SecretId& id) const {
  for (const auto& secret : secrets_) {
    if (secret.id() == id) return &secret;
  }
  return nullptr;
}

const FleetSecret* LinkTrust::secret_for_attempt(std::size_t attempt) const {
  return secrets_.empty() ? nullptr : &secrets_[attempt % secrets_.size()];
}

std::optional<EnrolmentSecret> LinkTrust::enrolment_secret(const EnrolmentId& id) const {
  return enrolments_ ? enrolments_(id) : std::nullopt;
}

Status LinkTrust::admits(const NodeKey& key) const {
  if (key == own_) return fail(ErrorCode::untrusted, "the peer has this daemon's own key");
  if (auto it = banned_.find(key); it != banned_.end()) {
    return fail(ErrorCode::untrusted, "node " + key.short_hex() + " is banned: " + it->second);
  }
  if (allowed_ && !allowed_->contains(key)) {
    return fail(ErrorCode::untrusted,
                "node " + key.hex() + " is not on the allow-list; add it there to let it in");
  }
  return {};
}

Status LinkTrust::correct(const NodeKey& key, wire::Hello& hello) const {
  const auto bad_name = [&](const std::string& name) {
    return fail(ErrorCode::malformed, "node " + key.short_hex() + " uses \"" + printable(name) +
                                          "\" as the name of a region or channel");
  };
  if (hello.node() != key.text()) {
    return fail(ErrorCode::untrusted, "node " + key.short_hex() + " introduces itself with another key");
  }
  if (!shape_ok(hello))
    return fail(ErrorCode::malformed, "node " + key.short_hex() + " introduces itself at too great length");
  for (const auto& channel : hello.channels()) {
    if (!Channel::parse(channel)) return bad_name(channel);
  }
  if (allowed_) {
    if (auto it = allowed_->find(key); it != allowed_->end()) {
      if (!it->second.region.empty()) hello.set_region(it->second.region.str());
      hello.set_trainer(it->second.trainer);
      hello.set_bootstrap(it->second.bootstrap);
    }
  }
  if (!Region::parse(hello.region())) return bad_name(hello.region());
  return {};
}

}  // namespace p2pw
