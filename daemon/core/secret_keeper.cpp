#include "daemon/core/secret_keeper.h"

#include <algorithm>
#include <sstream>

#include "daemon/client/files.h"
#include "daemon/client/fleet_secrets.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxHandoverFile = 64u << 20;
constexpr std::size_t kMaxParts = 512;  // 100 000 members
constexpr std::size_t kMaxExcludedFile = 8u << 20;

std::filesystem::path handover_file(const StatePaths& paths) { return paths.fleet() / "handover"; }
std::filesystem::path only_file(const StatePaths& paths) { return paths.fleet() / "only"; }
std::filesystem::path excluded_file(const StatePaths& paths) { return paths.fleet() / "excluded"; }

wire::SecretHandoverBody body_of(const wire::SecretHandover& part) {
  wire::SecretHandoverBody body;
  body.ParseFromString(part.body());  // read_handover() has looked at it
  return body;
}

}  // namespace

SecretKeeper::SecretKeeper(const Config& config) : paths_(config.paths()) {
  for (const BootstrapConfig& b : config.bootstrap) {
    if (b.trainer && b.key) trusted_.push_back(*b.key);
  }
  for (const AllowConfig& a : config.allow) {
    if (a.trainer) trusted_.push_back(a.key);
  }
}

Result<SecretKeeper> SecretKeeper::open(const Config& config) {
  SecretKeeper keeper(config);
  P2PW_TRY(keeper.secrets_, load_fleet_secrets(keeper.paths_));
  P2PW_CHECK(keeper.load_handover());
  return keeper;
}

Status SecretKeeper::load_handover() {
  if (auto text = read_small_file(only_file(paths_), 256); text.ok()) {
    only_ = SecretId::from_hex(text->substr(0, text->find('\n')));
  }
  if (auto text = read_small_file(excluded_file(paths_), kMaxExcludedFile); text.ok()) {
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      if (auto key = NodeKey::from_hex(line)) excluded_.insert(*key);
    }
  }
  auto text = read_small_file(handover_file(paths_), kMaxHandoverFile);
  if (!text.ok()) return text.error().code == ErrorCode::not_found ? Status() : Status(text.error());
  wire::SecretHandovers stored;
  if (!stored.ParseFromString(*text)) {
    return fail(ErrorCode::config, handover_file(paths_).string() + ": damaged; remove it, it is sent again");
  }
  for (const auto& part : stored.parts()) keep(part);
  return {};
}

void SecretKeeper::keep(const wire::SecretHandover& part) {
  const auto body = body_of(part);
  issued_ = from_millis(body.issued_ms());
  seen_.insert(part.body());
  parts_.push_back(part);
  for (const auto& sealed : body.sealed()) {
    if (auto key = NodeKey::from(sealed.node())) copied_.insert(*key);
  }
}

void SecretKeeper::forget_parts() {
  parts_.clear();
  seen_.clear();
  copied_.clear();
}

Status SecretKeeper::save_handover() const {
  wire::SecretHandovers stored;
  for (const auto& part : parts_) *stored.add_parts() = part;
  return write_small_file(handover_file(paths_), stored.SerializeAsString(), 0600);
}

Status SecretKeeper::set_only(const SecretId& id) {
  only_ = id;
  return write_small_file(only_file(paths_), id.hex() + "\n", 0600);
}

const FleetSecret* SecretKeeper::find(const SecretId& id) const {
  auto it = std::find_if(secrets_.begin(), secrets_.end(), [&](const FleetSecret& s) { return s.id() == id; });
  return it == secrets_.end() ? nullptr : &*it;
}

std::vector<FleetSecret> SecretKeeper::for_links() const {
  std::vector<FleetSecret> out;
  const FleetSecret* only = only_ ? find(*only_) : nullptr;
  for (const FleetSecret& secret : secrets_) {
    out.push_back(secret.clone());
    if (&secret == only) break;  // newer ones are good, too
  }
  return out;
}

Status SecretKeeper::add(const std::vector<std::string>& files_newest_first) {
  for (auto it = files_newest_first.rbegin(); it != files_newest_first.rend(); ++it) {
    P2PW_TRY(FleetSecret secret, FleetSecret::parse(*it));
    P2PW_CHECK(add_fleet_secret(paths_, secret));
  }
  P2PW_TRY(secrets_, load_fleet_secrets(paths_));
  return {};
}

Result<SecretKeeper::Parts> SecretKeeper::hand_over(const SigningKey& own, const std::vector<NodeKey>& members) {
  std::vector<NodeKey> to;
  for (const NodeKey& member : members) {
    if (!excluded_.contains(member)) to.push_back(member);
  }
  Parts made = make_handover(own, secrets_.front(), issued_, only_ == secrets_.front().id(), to);
  for (const auto& part : made) keep(part);
  P2PW_CHECK(save_handover());
  return made;
}

Result<SecretKeeper::Parts> SecretKeeper::rotate(const SigningKey& own, WallTime now, const std::vector<NodeKey>& members,
                                                 const std::set<NodeKey>& without) {
  if (!parts_.empty() && !secrets_.empty() && only_ != secrets_.front().id()) {
    return fail(ErrorCode::usage, "the last rotation is not finished: p2pw rotate fleet-secret --finish, once every node has the new secret");
  }
  FleetSecret secret = FleetSecret::generate();
  P2PW_CHECK(add_fleet_secret(paths_, secret));
  P2PW_TRY(secrets_, load_fleet_secrets(paths_));
  excluded_.insert(without.begin(), without.end());
  std::string lines;
  for (const NodeKey& key : excluded_) lines += key.hex() + "\n";
  P2PW_CHECK(write_small_file(excluded_file(paths_), lines, 0600));
  forget_parts();
  issued_ = std::max(now, issued_ + std::chrono::milliseconds(1));
  return hand_over(own, members);
}

Result<SecretKeeper::Parts> SecretKeeper::retire(const SigningKey& own, WallTime now, const std::vector<NodeKey>& members) {
  if (parts_.empty() || secrets_.empty()) return fail(ErrorCode::usage, "there is no rotation to finish; p2pw rotate fleet-secret begins one");
  P2PW_CHECK(set_only(secrets_.front().id()));
  // The copies are made anew: a member that missed the first handover gets both in one.
  std::set<NodeKey> all(members.begin(), members.end());
  all.insert(copied_.begin(), copied_.end());
  forget_parts();
  issued_ = std::max(now, issued_ + std::chrono::milliseconds(1));
  return hand_over(own, {all.begin(), all.end()});
}

Result<SecretKeeper::Parts> SecretKeeper::for_newcomers(const SigningKey& own, const std::vector<NodeKey>& members) {
  if (parts_.empty() || secrets_.empty() || only_ == secrets_.front().id()) return Parts();
  std::vector<NodeKey> missing;
  for (const NodeKey& member : members) {
    if (!copied_.contains(member) && !excluded_.contains(member)) missing.push_back(member);
  }
  return missing.empty() ? Result<Parts>(Parts()) : hand_over(own, missing);
}

Result<SecretKeeper::Heard> SecretKeeper::hear(const wire::SecretHandover& message, const SigningKey& own) {
  if (seen_.contains(message.body())) return Heard{};
  P2PW_TRY(Handover handover, read_handover(message, own, trusted_));
  if (handover.issued < issued_) return Heard{};
  if (handover.issued > issued_) forget_parts();
  if (parts_.size() >= kMaxParts) return fail(ErrorCode::limit, "a secret handover in too many parts");
  Heard heard{true, false};
  if (handover.secret && find(handover.secret_id) == nullptr) {
    P2PW_CHECK(add({handover.secret->file()}));
    heard.changed = true;
  }
  if (handover.only && only_ != handover.secret_id && find(handover.secret_id) != nullptr) {
    P2PW_CHECK(set_only(handover.secret_id));
    heard.changed = true;
  }
  keep(message);
  P2PW_CHECK(save_handover());
  return heard;
}

const wire::SecretHandover* SecretKeeper::part_for(const NodeKey& node) const {
  if (!copied_.contains(node)) return nullptr;
  for (const auto& part : parts_) {
    const auto body = body_of(part);
    for (const auto& sealed : body.sealed()) {
      if (sealed.node() == node.text()) return &part;
    }
  }
  return nullptr;
}

}  // namespace p2pw
