// Members of the fleet that do not keep to the rules: they hold the fleet secret and a node key, and nothing else.
#include <fstream>

#include "protocol/hash.h"
#include "protocol/record_body.h"
#include "tests/src/attacks/stage.h"

namespace p2pw::attacks {
namespace {

using testing::HostilePeer;

constexpr std::uint64_t kMiB = 1u << 20;

std::string megabytes(std::uint64_t bytes) { return std::to_string(bytes / kMiB) + " MiB"; }

Outcome no_link() { return {false, "the insider could not link"}; }

Outcome ends_link(Stage& stage, const std::function<void(Insider&)>& act) {
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  act(insider);
  const bool gone = stage.until([&] { return insider.gone(); }, 15);
  return {gone, gone ? "the link was ended" : "the link stands"};
}

Outcome huge_message(Stage& stage) {
  return ends_link(stage, [](Insider& insider) { insider.peer().say_raw(HostilePeer::prefix(0x7fffffff, 0)); });
}
Outcome huge_payload(Stage& stage) {
  return ends_link(stage, [](Insider& insider) { insider.peer().say_raw(HostilePeer::prefix(40, 0xfffffff0)); });
}
Outcome unknown_message(Stage& stage) {
  return ends_link(stage, [](Insider& insider) { insider.peer().say(std::string("\xc2\xa9\x07\x01x", 5)); });
}
Outcome misplaced_payload(Stage& stage) {
  return ends_link(stage, [](Insider& insider) {
    wire::LinkMessage message;
    message.mutable_goodbye()->set_reason("x");
    insider.say(message, Bytes(100));
  });
}

// Says `count` messages; what the victim's memory grew by.
Outcome memory(Stage& stage, int count, std::uint64_t allowed, const std::function<void(Insider&, int)>& say) {
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  const std::uint64_t before = stage.rss("r1-1");
  for (int i = 0; i < count && !insider.gone(); ++i) {
    say(insider, i);
    if (i % 64 == 63) insider.flush();
  }
  insider.flush();
  stage.pump(300);
  std::string why;
  const bool well = stage.healthy(why);
  const std::uint64_t after = stage.rss("r1-1"), grown = after > before ? after - before : 0;
  return {well && grown <= allowed, "memory grew by " + megabytes(grown) + (insider.gone() ? "; the link was ended" : "") + why};
}

std::string some_id(int i) { return std::string(sha256(as_bytes("x" + std::to_string(i))).text()); }

Outcome metas(Stage& stage) {
  const Bytes meta(4 * kMiB);
  return memory(stage, 128, 200 * kMiB, [&](Insider& insider, int i) {
    wire::LinkMessage message;
    message.mutable_meta()->set_bundle(some_id(i));
    insider.say(message, meta);
    insider.flush();
  });
}

Outcome early_chunks(Stage& stage) {
  return memory(stage, 100'000, 200 * kMiB, [](Insider& insider, int i) {
    wire::LinkMessage message;
    message.mutable_chunk()->set_bundle(some_id(i));
    insider.say(message);
  });
}

Outcome announcements(Stage& stage) {
  return memory(stage, 100'000, 100 * kMiB, [](Insider& insider, int i) {
    wire::LinkMessage message;
    message.mutable_lease_announce()->set_bundle(some_id(i));
    message.mutable_lease_announce()->set_holder(std::string(insider.key().text()));
    message.mutable_lease_announce()->set_epoch(1);
    insider.say(message);
  });
}

Outcome many_channels(Stage& stage) {
  return memory(stage, 2000, 100 * kMiB, [](Insider& insider, int i) {
    wire::LinkMessage message;
    for (int k = 0; k < 100; ++k) {
      auto* state = message.mutable_states()->add_states();
      state->set_node(std::string(insider.key().text()));
      state->set_channel("c" + std::to_string(100 * i + k));
      state->set_region("r1");
      state->set_name(std::string(500, 'x'));
      state->set_at_ms(1);
    }
    insider.say(message);
  });
}

Outcome unfinished(Stage& stage) {
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  const std::uint64_t before = stage.rss("r1-1");
  wire::LinkMessage message;
  message.mutable_chunk()->set_bundle(some_id(1));
  insider.peer().say_raw(frame_head(message, limits::kMaxChunkBytes).value());  // and not a byte of it
  stage.pump(300);
  const std::uint64_t after = stage.rss("r1-1"), grown = after > before ? after - before : 0;
  return {grown < kMiB, "a payload of 4 MiB that does not come holds " + std::to_string(grown / 1024) + " KiB"};
}

// Who asks again and again for everything.
Outcome requests(Stage& stage) {
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  std::uint64_t heard = 0;
  insider.on_message = [&](const wire::LinkMessage& message, const Bytes&) {
    for (const auto& envelope : message.records().envelopes()) heard += envelope.size();
  };
  wire::LinkMessage message;
  message.mutable_records_wanted()->set_channel("policy");
  constexpr int kAsked = 20'000;
  for (int i = 0; i < kAsked && !insider.gone(); ++i) {
    insider.say(message);
    if (i % 256 == 255) insider.flush();
  }
  stage.pump(500);
  std::uint64_t log = 1;
  std::ifstream in(stage.state("r1-1") / "channels/policy/records/log", std::ios::ate | std::ios::binary);
  if (in) log = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(in.tellg()));
  std::string why;
  const bool well = stage.healthy(why);
  return {well && heard / log < 500,
          std::to_string(kAsked) + " requests for the log were answered about " + std::to_string(heard / log) + " times" + why};
}

Outcome members(Stage& stage) {
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  wire::LinkMessage message;
  auto* entry = message.mutable_members()->add_entries();
  NodeKey ghost;
  ghost.data.fill(0xab);
  entry->mutable_hello()->set_node(std::string(ghost.text()));
  entry->mutable_hello()->set_region("r1");
  entry->mutable_hello()->set_name("ghost");
  entry->set_life(wire::MemberEntry::LIVE);
  entry->set_incarnation(1);
  insider.say(message);
  insider.flush();
  stage.pump(500);
  auto peers = stage.fleet().p2pw("r1-1", {"peers"});
  const bool there = peers.out.find(ghost.hex()) != std::string::npos;
  return {!there, there ? "the ghost is in the table" : "a word on others from a member without the bootstrap role is ignored"};
}

Outcome other_states(Stage& stage) {
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  const NodeKey other = stage.key_of("r1-2");
  wire::LinkMessage message;
  auto* state = message.mutable_states()->add_states();
  state->set_node(std::string(other.text()));
  state->set_channel("policy");
  state->set_region("r1");
  state->set_version_active(999'999);
  state->set_at_ms(~std::uint64_t{0} / 2);
  insider.say(message);
  insider.flush();
  stage.pump(500);
  bool believed = false;
  for (const char* daemon : {"r1-1", "trainer"}) {
    for (auto& node : stage.status(daemon)["nodes"]) believed = believed || node["version_active"] == 999'999;
  }
  return {!believed, believed ? "the false report is shown" : "a report on another node is ignored"};
}

Outcome terminal(Stage& stage) {
  Insider insider(stage, "r1-1", "r1", [](wire::Hello& hello) { hello.set_name("\x1b[2J\nroot"); });
  if (!insider.linked()) return {true, "not let in: " + insider.why()};
  stage.pump(300);
  auto peers = stage.fleet().p2pw("r1-1", {"peers"});
  const bool raw = peers.out.find("u001b") != std::string::npos || peers.out.find('\x1b') != std::string::npos;
  return {!raw, "control characters in a name are replaced"};
}

Outcome bad_names(Stage& stage) {
  std::string seen;
  for (const std::string& region : {std::string("../../etc"), std::string("/abs"), std::string("a/b"), std::string("a\0b", 3),
                                    std::string("R1"), std::string(), std::string(65, 'a'), std::string("..")}) {
    Insider insider(stage, "r1-1", region);
    if (insider.linked()) return {false, "region \"" + region + "\" was let in"};
  }
  return {true, "regions with separators, dots, NUL, capitals or too many characters: no link"};
}

Outcome stripes(Stage& stage) {
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  const FleetSecret secret = stage.secret();
  const std::size_t before = stage.descriptors("r1-1");
  std::vector<std::unique_ptr<HostilePeer>> all;
  std::size_t open = 0;
  for (int i = 0; i < 60; ++i) {
    all.push_back(std::make_unique<HostilePeer>(stage.io(), insider.peer().identity));
    HostilePeer& stripe = *all.back();
    stripe.connect(stage.link_of("r1-1"), [&] { stripe.say(stripe.offer(secret, LinkPurpose::stripe).SerializeAsString()); });
    stage.until([&] { return stripe.gone || !stripe.frames.empty(); });
    open += !stripe.gone;
  }
  const std::size_t held = stage.descriptors("r1-1") - before;
  return {open < 40 && held < 40, "of 60 stripes " + std::to_string(open) + " stand"};
}

}  // namespace

void add_insiders(std::vector<Attack>& attacks) {
  attacks.insert(attacks.end(), {{"member: a message of 2 GiB", huge_message},
                                 {"member: a payload of 4 GiB", huge_payload},
                                 {"member: a message of no known kind", unknown_message},
                                 {"member: a payload where none belongs", misplaced_payload},
                                 {"member: 512 MiB of metas of unknown bundles", metas},
                                 {"member: 100000 chunks of unknown bundles", early_chunks},
                                 {"member: 100000 leases of unknown bundles", announcements},
                                 {"member: reports on 200000 channels", many_channels},
                                 {"member: a payload that does not come", unfinished},
                                 {"member: 20000 requests for the record log", requests},
                                 {"member: 60 stripes", stripes},
                                 {"member: false members", members},
                                 {"member: false reports on another node", other_states},
                                 {"member: terminal escapes in its name", terminal},
                                 {"member: a region name that is a path", bad_names}});
}

}  // namespace p2pw::attacks
