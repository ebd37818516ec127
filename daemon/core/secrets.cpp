#include "daemon/core/secrets.h"

#include "daemon/client/files.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {
constexpr std::size_t kMaxEnrolments = 4u << 20;
}  // namespace

Result<SigningKey> load_node_key(const StatePaths& paths) {
  auto text = read_credential("p2pw.node.key", paths.node_key(), limits::kMaxKeyFileBytes);
  if (!text.ok() && text.error().code == ErrorCode::not_found) {
    return fail(ErrorCode::not_found,
                paths.node_key().string() + ": this daemon has no key yet; run p2pw init on the trainer or p2pw join on a node");
  }
  if (!text.ok()) return text.error();
  return SigningKey::parse(*text);
}

Result<Enrolments> load_enrolments(const StatePaths& paths) {
  auto text = read_secret_file(paths.enrolments(), kMaxEnrolments);
  if (!text.ok() && text.error().code == ErrorCode::not_found) return Enrolments();
  if (!text.ok()) return text.error();
  return Enrolments::parse(*text);
}

Status save_enrolments(const StatePaths& paths, const Enrolments& enrolments) {
  return write_small_file(paths.enrolments(), enrolments.text(), 0600);
}

Result<JoinToken> load_pending_enrolment(const StatePaths& paths) {
  P2PW_TRY(std::string text, read_secret_file(paths.enrolment_pending(), limits::kMaxTokenLength));
  return JoinToken::parse(text);
}

void drop_pending_enrolment(const StatePaths& paths) {
  std::error_code ignored;
  std::filesystem::remove(paths.enrolment_pending(), ignored);
}

std::optional<AllowList> allow_list_of(const Config& config) {
  if (config.allow.empty()) return std::nullopt;
  AllowList list;
  for (const AllowConfig& entry : config.allow) list[entry.key] = {entry.region, entry.trainer, entry.bootstrap};
  return list;
}

}  // namespace p2pw
