#include "protocol/enrolment.h"

#include <sodium.h>

#include <algorithm>
#include <charconv>

#include "protocol/crypto_init.h"

namespace p2pw {
namespace {

constexpr std::string_view kHeader = "p2pw-enrolments-1";

// The next part up to `separator`, which is taken off as well.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return part;
}

template <class N>
bool read_number(std::string_view text, N& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// ID SECRET EXPIRES_MS USES_LEFT [NODE[,NODE...]]
std::optional<Enrolment> read_line(std::string_view line) {
  const auto id = EnrolmentId::from_hex(take(line, ' '));
  const auto secret = EnrolmentSecret::from_hex(take(line, ' '));
  std::int64_t expires = 0;
  Enrolment out;
  if (!id || !secret || !read_number(take(line, ' '), expires) || !read_number(take(line, ' '), out.uses_left)) {
    return std::nullopt;
  }
  out.id = *id;
  out.secret = *secret;
  out.expires = from_millis(static_cast<std::uint64_t>(expires));
  while (!line.empty()) {
    const auto node = NodeKey::from_hex(take(line, ','));
    if (!node || out.enrolled.size() >= Enrolments::kMaxUses) return std::nullopt;
    out.enrolled.push_back(*node);
  }
  return out;
}

}  // namespace

Enrolment Enrolment::make(WallTime expires, std::uint32_t uses) {
  init_crypto();
  Enrolment out;
  randombytes_buf(out.id.data.data(), EnrolmentId::kSize);
  randombytes_buf(out.secret.data.data(), EnrolmentSecret::kSize);
  out.expires = expires;
  out.uses_left = uses;
  return out;
}

Status Enrolments::add(Enrolment enrolment, WallTime now) {
  forget_expired(now);
  if (enrolment.uses_left == 0 || enrolment.uses_left > kMaxUses) {
    return fail(ErrorCode::usage, "a token is good for 1 to " + std::to_string(kMaxUses) + " nodes");
  }
  if (table_.size() >= kMaxOutstanding) {
    return fail(ErrorCode::busy, std::to_string(kMaxOutstanding) +
                                     " tokens are out already: wait until one expires, or make one for several nodes");
  }
  const EnrolmentId id = enrolment.id;
  if (!table_.emplace(id, std::move(enrolment)).second) return fail(ErrorCode::usage, "this enrolment exists already");
  return {};
}

std::optional<EnrolmentSecret> Enrolments::check(const EnrolmentId& id, WallTime now) const {
  const auto found = table_.find(id);
  if (found == table_.end() || now >= found->second.expires) return std::nullopt;
  return found->second.secret;
}

Status Enrolments::use(const EnrolmentId& id, const NodeKey& node, WallTime now) {
  const auto found = table_.find(id);
  if (found == table_.end()) {
    return fail(ErrorCode::not_found, "this token is not known here: ask for a new one (`p2pw token`)");
  }
  Enrolment& enrolment = found->second;
  if (now >= enrolment.expires) {
    return fail(ErrorCode::timed_out, "this token has expired: ask for a new one (`p2pw token`)");
  }
  if (std::ranges::find(enrolment.enrolled, node) != enrolment.enrolled.end()) return {};
  if (enrolment.uses_left == 0) {
    return fail(ErrorCode::untrusted, "this token has been used already: ask for a new one (`p2pw token`)");
  }
  --enrolment.uses_left;
  enrolment.enrolled.push_back(node);
  return {};
}

void Enrolments::forget_expired(WallTime now) {
  std::erase_if(table_, [now](const auto& entry) { return now >= entry.second.expires; });
}

std::string Enrolments::text() const {
  std::string out(kHeader);
  out += '\n';
  for (const auto& [id, enrolment] : table_) {
    out += id.hex() + ' ' + enrolment.secret.hex() + ' ' + std::to_string(to_millis(enrolment.expires)) + ' ' +
           std::to_string(enrolment.uses_left);
    char separator = ' ';
    for (const NodeKey& node : enrolment.enrolled) {
      out += separator + node.hex();
      separator = ',';
    }
    out += '\n';
  }
  return out;
}

Result<Enrolments> Enrolments::parse(std::string_view text) {
  Enrolments out;
  if (take(text, '\n') != kHeader) return fail(ErrorCode::config, "not a list of enrolments");
  for (std::size_t number = 2; !text.empty(); ++number) {
    auto enrolment = read_line(take(text, '\n'));
    if (!enrolment || out.table_.size() >= kMaxOutstanding) {
      return fail(ErrorCode::config, "line " + std::to_string(number) + " of the list of enrolments is damaged");
    }
    const EnrolmentId id = enrolment->id;
    out.table_.emplace(id, std::move(*enrolment));
  }
  return out;
}

}  // namespace p2pw
