// Records, metas and chunks that are not what the publisher signed, from a member of the fleet.
#include <boost/asio/post.hpp>
#include <fstream>
#include <csignal>
#include <thread>

#include "daemon/core/secrets.h"
#include "protocol/hash.h"
#include "protocol/record_body.h"
#include "tests/protocol/make_records.h"
#include "tests/src/attacks/stage.h"

namespace p2pw::attacks {
namespace {

Outcome no_link() { return {false, "the insider could not link"}; }

WallTime now() { return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now()); }

std::string file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::filesystem::path log_of(Stage& stage, const std::string& daemon) {
  return stage.state(daemon) / "channels/policy/records/log";
}

std::vector<std::string> stored_records(Stage& stage) {
  const std::string all = file(log_of(stage, "trainer"));
  std::vector<std::string> records;
  for (std::size_t at = 0; all.size() - at >= 4;) {
    std::uint32_t size = 0;
    for (std::size_t i = 4; i-- > 0;) size = size << 8 | static_cast<unsigned char>(all[at + i]);
    if (all.size() - at - 4 < size) break;
    records.push_back(all.substr(at + 4, size));
    at += 4 + size;
  }
  return records;
}

wire::LinkMessage carrying(std::initializer_list<std::string> envelopes) {
  wire::LinkMessage message;
  for (const std::string& envelope : envelopes) message.mutable_records()->add_envelopes(envelope);
  return message;
}

std::string text(const Result<Bytes>& envelope) { return std::string(as_text(envelope.value())); }

// Says them; whether the victim's log and status are what they were.
Outcome not_taken(Stage& stage, std::initializer_list<std::string> envelopes, const std::string& effect) {
  const std::string before = file(log_of(stage, "r1-1"));
  const auto status = stage.status("r1-1")["channels"][0];
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  insider.say(carrying(envelopes));
  insider.flush();
  stage.pump(300);
  const auto after = stage.status("r1-1")["channels"][0];
  const bool same = file(log_of(stage, "r1-1")) == before && after["version_sealed"] == status["version_sealed"] &&
                    after["head"] == status["head"];
  return {same, same ? effect : "the log has changed"};
}

Outcome second_publisher(Stage& stage) {
  const SigningKey other = SigningKey::generate();
  auto open = testing::anchor_open(50);
  return not_taken(stage, {text(sign_record(other, testing::channel(), now(), open))}, "not in the log: another key signed it");
}

// The right key id, another key.
Outcome forged(Stage& stage) {
  std::string record = stored_records(stage).front();
  record[record.size() - 20] = static_cast<char>(record[record.size() - 20] ^ 1);
  std::string changed = stored_records(stage).front();
  changed[20] = static_cast<char>(changed[20] ^ 1);
  return not_taken(stage, {record, changed}, "not in the log: the signature is not over these bytes");
}

Outcome oversized(Stage& stage) {
  return not_taken(stage, {std::string(60'000, 'x'), std::string(), std::string("\x0a\xff\xff\xff\xff\x0f", 6)},
                   "not in the log: larger than 4 KiB, empty or cut short");
}

Outcome other_channel(Stage& stage) {
  auto key = SigningKey::parse(file(stage.fleet().folder("trainer") / "publisher.key"));
  if (!key.ok()) return {false, key.error().message};
  return not_taken(stage, {text(sign_record(*key, testing::channel("other"), now(), testing::anchor_open(50)))},
                   "not in the log: signed by the publisher, for another channel");
}

Outcome replayed(Stage& stage) {
  const auto records = stored_records(stage);
  return not_taken(stage, {records.front(), records.back(), records.front()}, "known already: nothing happens");
}

// A version cannot be opened again, or below what is sealed, even with the publisher's own key.
Outcome backwards(Stage& stage) {
  auto key = SigningKey::parse(file(stage.fleet().folder("trainer") / "publisher.key"));
  if (!key.ok()) return {false, key.error().message};
  return not_taken(stage, {text(sign_record(*key, testing::channel(), now(), testing::anchor_open(1)))},
                   "refused: a number is used once");
}

SigningKey online_key(Stage& stage) {
  return SigningKey::parse(file(stage.state("trainer") / "channels/policy/online.key")).value();
}

// What the thief of the online key can sign: heads only, and they only rise.
Outcome online_key_publishes(Stage& stage) {
  const SigningKey online = online_key(stage);
  return not_taken(stage, {text(sign_record(online, testing::channel(), now(), testing::anchor_open(50)))},
                   "not in the log: the delegate may sign head only");
}

HeadRecord head(std::uint64_t version, WallTime expires) {
  HeadRecord record;
  record.version = Version(version);
  record.seal = testing::blob<SealHash>(9);
  record.expires = expires;
  return record;
}

Outcome future_head(Stage& stage) {
  const SigningKey online = online_key(stage);
  const WallTime future = now() + std::chrono::hours(24);
  return not_taken(stage, {text(sign_record(online, testing::channel(), future, head(77, future + std::chrono::seconds(60))))},
                   "a head of tomorrow is refused; the state is as before");
}

Outcome contradicting_head(Stage& stage) {
  const SigningKey online = online_key(stage);
  return not_taken(stage, {text(sign_record(online, testing::channel(), now(), head(1, now() + std::chrono::seconds(60))))},
                   "a head that names another seal of a known version is refused");
}

Outcome flood(Stage& stage) {
  const std::string before = file(log_of(stage, "r1-1"));
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  std::string forged = stored_records(stage).front();
  wire::LinkMessage message;
  for (int i = 0; i < 100; ++i) {
    forged[forged.size() - 10] = static_cast<char>(i);
    message.mutable_records()->add_envelopes(forged);
  }
  int sent = 0;
  for (; sent < 500 && !insider.gone(); ++sent) {
    insider.say(message);
    if (sent % 8 == 7) insider.flush();
  }
  const bool gone = stage.until([&] { return insider.gone(); }, 15);
  std::string why;
  const bool well = stage.healthy(why) && file(log_of(stage, "r1-1")) == before;
  return {gone && well, "the link was ended after some " + std::to_string(std::min(sent * 100, 4196)) +
                            " forged signatures; the daemon went on" + why};
}

// A publication, and an insider in r1 that hears of its bundles. `act` is called for each.
struct Publication {
  bool published = false;
  std::string error;
};
Publication publish(Stage& stage, Insider& insider, const std::string& step,
                    const std::function<void(const BundleRecord&, const BundleId&)>& act) {
  insider.on_message = [&](const wire::LinkMessage& message, const Bytes&) {
    for (const std::string& envelope : message.records().envelopes()) {
      const ByteView bytes = as_bytes(envelope);
      auto id = record_id(bytes);
      // The envelope is the record between its two prefixes and the signature (SPEC.md, 4.1).
      const std::size_t skip = envelope.size() > 130 + 76 ? 3 : 2;
      auto record = decode_record(bytes.subspan(skip, bytes.size() - skip - 76));
      if (!id.ok() || !record.ok()) continue;
      if (const auto* bundle = std::get_if<BundleRecord>(&record->body)) act(*bundle, id_as<BundleId>(*id));
    }
  };
  const auto out = stage.fleet().path() / "seed.log";
  testing::Process seed(stage.fleet().p2pw_command("trainer", {"seed", (stage.series / step).string(), "--wait", "--kind",
                                                               "anchor", "--wait-active", "75%"}),
                        out);
  auto code = std::make_shared<std::optional<int>>();
  std::thread waiting([&] {
    const int result = seed.wait();
    boost::asio::post(stage.io(), [code, result] { *code = result; });
  });
  stage.until([&] { return code->has_value(); }, 90);
  if (!*code) seed.signal(SIGKILL);
  waiting.join();
  insider.on_message = nullptr;
  return {*code == 0, file(out)};
}

// Again when nothing was heard of: r1-1 tells an insider of records only once it knows what it follows.
Publication publish_until_heard(Stage& stage, Insider& insider, const std::string& step, const int& heard,
                                const std::function<void(const BundleRecord&, const BundleId&)>& act) {
  Publication done = publish(stage, insider, step, act);
  for (int again = 0; again < 2 && heard == 0; ++again) done = publish(stage, insider, step, act);
  return done;
}

Outcome wrong_chunk(Stage& stage) {
  Insider insider(stage, "r1-1", "r1");
  if (!insider.linked()) return no_link();
  int chunks = 0;
  auto done = publish_until_heard(stage, insider, "step_0001", chunks, [&](const BundleRecord& bundle, const BundleId& id) {
    wire::LinkMessage message;
    const ChunkIndex last(bundle.chunk_count() - 1);
    message.mutable_chunk()->set_bundle(std::string(id.text()));
    message.mutable_chunk()->set_index(last.value());
    message.mutable_chunk()->set_epoch(1);
    insider.say(message, Bytes(bundle.chunk_used(last), std::byte{0x5a}));
    ++chunks;
  });
  const bool banned = stage.has_event("r1-1", "ban", insider.key().hex());
  Insider again(stage, "r1-1", "r1");  // another key: not banned
  testing::HostilePeer same(stage.io(), insider.peer().identity);
  const FleetSecret secret = stage.secret();
  same.connect(stage.link_of("r1-1"), [&] { same.say(same.offer(secret, LinkPurpose::control).SerializeAsString()); });
  const bool refused = stage.until([&] { return same.gone; });
  bool identical = true;
  for (const char* daemon : Stage::kDaemons) {
    identical = identical && testing::same_tree(stage.series / "step_0001", stage.fleet().current(daemon));
  }
  return {chunks > 0 && banned && refused && done.published && identical,
          std::to_string(chunks) + " wrong chunks sent: " + (banned ? "its key is banned, " : "not banned, ") +
              (refused ? "it cannot come back, " : "it came back, ") +
              (identical ? "every node has the trainer's bytes" : "the checkpoints differ: " + done.error)};
}

// Somebody else's lease, with an epoch that nobody could ever outrank.
Outcome highest_epoch(Stage& stage) {
  Insider insider(stage, "r1-1", "r1");
  Insider second(stage, "r1-2", "r1");
  if (!insider.linked() || !second.linked()) return no_link();
  int said = 0;
  auto done = publish_until_heard(stage, insider, "step_0002", said, [&](const BundleRecord&, const BundleId& id) {
    wire::LinkMessage message;
    message.mutable_lease_announce()->set_bundle(std::string(id.text()));
    message.mutable_lease_announce()->set_holder(std::string(insider.key().text()));
    message.mutable_lease_announce()->set_epoch(~std::uint64_t{0});
    insider.say(message);
    second.say(message);
    ++said;
  });
  return {said > 0 && done.published, done.published ? "ignored: epochs rise by grants; the version reached everybody" : done.error};
}

}  // namespace

void add_record_attacks(std::vector<Attack>& attacks) {
  attacks.insert(attacks.end(), {{"record: of a second publisher", second_publisher},
                                 {"record: forged or changed", forged},
                                 {"record: oversized, empty, cut short", oversized},
                                 {"record: of another channel", other_channel},
                                 {"record: replayed", replayed},
                                 {"record: an older version opened again", backwards},
                                 {"record: a version signed by the online key", online_key_publishes},
                                 {"record: a head from the future", future_head},
                                 {"record: a head with another seal", contradicting_head},
                                 {"record: 50000 forged signatures", flood},
                                 {"chunk: wrong bytes over a link", wrong_chunk},
                                 {"lease: the highest epoch there is", highest_epoch}});
}

}  // namespace p2pw::attacks
