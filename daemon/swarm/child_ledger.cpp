#include "daemon/swarm/child_ledger.h"

#include <algorithm>

#include "daemon/swarm/child_process.h"
#include "protocol/swarm_child.pb.h"

namespace p2pw {
namespace {

Error wrong(const std::string& what) {
  return fail(ErrorCode::malformed, "it said something that it cannot mean: " + what);
}

// For a log: one line, nothing that a terminal would act on.
Result<std::string> text_of(const std::string& text) {
  if (text.size() > ChildLedger::kMaxText) return wrong("a text of " + std::to_string(text.size()) + " bytes");
  std::string plain = text;
  for (char& c : plain) {
    if (c < ' ' || c > '~') c = '?';
  }
  return plain;
}

Result<std::string> address_of(const std::string& text) {
  const bool good = !text.empty() && text.size() <= 45 &&
                    text.find_first_not_of("0123456789abcdefABCDEF.:") == std::string::npos;
  if (!good) return wrong("a peer without an address");
  return text;
}

SwarmCounters counters_of(const wire::SwarmCount& count) {
  SwarmCounters counters;
  counters.payload_sent = count.payload_sent();
  counters.payload_received = count.payload_received();
  counters.redundant = count.redundant();
  counters.hash_failures = count.hash_failures();
  counters.torrents = count.torrents();
  counters.connections = count.connections();
  counters.refused_strangers = count.refused_strangers();
  return counters;
}

}  // namespace

void ChildLedger::begin(Clock::time_point now) {
  std::unordered_map<Number, Bundle> before;
  before.swap(bundles_);
  numbers_.clear();
  first_ = last_ + 1;
  for (auto& [number, bundle] : before) add(bundle.id, std::move(bundle.file), bundle.group);
  started_ = false;
  notable_ = kNotable;
  notable_at_ = now;
}

ChildLedger::Number ChildLedger::add(const BundleId& id, std::shared_ptr<BundleFile> file, SwarmGroups group) {
  remove(id);
  Bundle bundle{id, std::move(file), group, {}, {}};
  bundle.told.resize(bundle.file->chunk_count());
  bundle.handed_on.resize(bundle.file->chunk_count());
  numbers_[id] = ++last_;
  bundles_.emplace(last_, std::move(bundle));
  return last_;
}

ChildLedger::Number ChildLedger::remove(const BundleId& id) {
  auto it = numbers_.find(id);
  if (it == numbers_.end()) return 0;
  const Number number = it->second;
  bundles_.erase(number);
  numbers_.erase(it);
  return number;
}

ChildLedger::Number ChildLedger::find(const BundleId& id) const {
  auto it = numbers_.find(id);
  return it == numbers_.end() ? 0 : it->second;
}

Status ChildLedger::spend(Clock::time_point now) {
  const double passed = std::chrono::duration<double>(now - notable_at_).count();
  notable_at_ = now;
  notable_ = std::min(kNotable, notable_ + passed * kNotableRate);
  if (notable_ < 1) return fail(ErrorCode::limit, "it reports far more than can have happened");
  notable_ -= 1;
  return {};
}

Result<ChildLedger::Bundle*> ChildLedger::bundle(Number number, Clock::time_point now) {
  if (number < first_ || number > last_) return wrong("bundle number " + std::to_string(number));
  auto it = bundles_.find(number);
  if (it != bundles_.end()) return &it->second;
  P2PW_CHECK(spend(now));
  return nullptr;
}

Result<std::vector<ChunkIndex>> ChildLedger::once(std::vector<bool>& said, const std::uint32_t* chunks,
                                                 std::size_t count) {
  if (count == 0) return wrong("no chunk at all");
  std::vector<ChunkIndex> out;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (chunks[i] >= said.size()) return wrong("chunk " + std::to_string(chunks[i]));
    if (said[chunks[i]]) return wrong("chunk " + std::to_string(chunks[i]) + " twice");
    said[chunks[i]] = true;
    out.emplace_back(chunks[i]);
  }
  return out;
}

Result<ChildLedger::Report> ChildLedger::arrived(Number number, const std::uint32_t* chunks, std::size_t count,
                                                 Clock::time_point now) {
  P2PW_TRY(Bundle * bundle, this->bundle(number, now));
  if (bundle == nullptr) return Report(Nothing{});
  P2PW_TRY(auto said, once(bundle->told, chunks, count));
  return Report(Arrived{bundle->id, bundle->file, std::move(said)});
}

Result<ChildLedger::Report> ChildLedger::handed_on(Number number, const std::uint32_t* chunks, std::size_t count,
                                                   Clock::time_point now) {
  P2PW_TRY(Bundle * bundle, this->bundle(number, now));
  if (bundle == nullptr) return Report(Nothing{});
  P2PW_TRY(auto said, once(bundle->handed_on, chunks, count));
  for (ChunkIndex chunk : said) {
    if (!bundle->file->has(chunk)) return wrong("chunk " + std::to_string(chunk.value()) + " handed on, which is not here");
  }
  return Report(HandedOn{bundle->id, std::move(said)});
}

Result<ChildLedger::Report> ChildLedger::take(const std::string& packet, Clock::time_point now) {
  wire::SwarmReport report;
  if (packet.size() > kMaxPacket || !report.ParseFromString(packet)) return wrong("no message at all");
  using Body = wire::SwarmReport::BodyCase;
  if (report.has_started() == started_ && !report.has_failed()) return wrong("out of turn");
  switch (report.body_case()) {
    case Body::kStarted: {
      const wire::SwarmStarted& said = report.started();
      if (said.port() == 0 || said.port() > 0xffff) return wrong("port " + std::to_string(said.port()));
      started_ = true;
      return Report(Started{static_cast<std::uint16_t>(said.port()), said.landlock(), said.seccomp()});
    }
    case Body::kArrived: {
      const auto& chunks = report.arrived().chunks();
      return arrived(report.arrived().number(), chunks.data(), static_cast<std::size_t>(chunks.size()), now);
    }
    case Body::kHandedOn: {
      const auto& chunks = report.handed_on().chunks();
      return handed_on(report.handed_on().number(), chunks.data(), static_cast<std::size_t>(chunks.size()), now);
    }
    case Body::kBlocked: {
      P2PW_TRY(Bundle * bundle, this->bundle(report.blocked().number(), now));
      P2PW_TRY(std::string address, address_of(report.blocked().address()));
      P2PW_TRY(std::string reason, text_of(report.blocked().reason()));
      if (bundle == nullptr) return Report(Nothing{});
      P2PW_CHECK(spend(now));
      return Report(Blocked{bundle->id, std::move(address), std::move(reason)});
    }
    case Body::kFailed: {
      const wire::SwarmFailed& said = report.failed();
      P2PW_CHECK(spend(now));
      Bundle* bundle = nullptr;
      if (said.number() != 0) {
        P2PW_TRY(bundle, this->bundle(said.number(), now));
        if (bundle == nullptr) return Report(Nothing{});
      }
      P2PW_TRY(std::string message, text_of(said.message()));
      if (said.code() > static_cast<std::uint32_t>(ErrorCode::interrupted)) return wrong("error " + std::to_string(said.code()));
      return Report(Failed{bundle ? bundle->id : BundleId(), {static_cast<ErrorCode>(said.code()), std::move(message)}});
    }
    case Body::kCount:
      return Report(counters_of(report.count()));
    case Body::BODY_NOT_SET:
      break;
  }
  return wrong("an empty message");
}

}  // namespace p2pw
