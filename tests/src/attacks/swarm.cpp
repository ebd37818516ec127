// The regional swarm: strangers, members that have left, messages that libtorrent 2.0.8 cannot take.
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <fstream>
#include <libtorrent/torrent_info.hpp>

#include "daemon/swarm/torrent.h"
#include "protocol/record.h"
#include "protocol/channel_log.h"
#include "tests/src/attacks/stage.h"
#include "tests/swarm/raw_peer.h"

namespace p2pw::attacks {
namespace {

struct Target {
  std::string address, neighbour;
  std::uint16_t port = 0;
  std::string hash;  // of a bundle that it shares, as on the wire
  std::string pieces_root;
};

// What only a member can know: read from a node's state folder.
std::optional<Target> target(Stage& stage) {
  Target out;
  const Config& config = stage.config("r1-1");
  out.address = config.listen.address;
  out.port = config.listen.swarm_port;
  out.neighbour = stage.config("r1-2").listen.address;
  ChannelLog log(config.channels[0].name, config.channels[0].publisher);
  std::ifstream in(stage.state("r1-1") / "channels/policy/records/log", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t at = 0; all.size() - at >= 4;) {
    std::uint32_t size = 0;
    for (std::size_t i = 4; i-- > 0;) size = size << 8 | static_cast<unsigned char>(all[at + i]);
    if (all.size() - at - 4 < size) break;
    log.receive(as_bytes(std::string_view(all).substr(at + 4, size)), WallTime());
    at += 4 + size;
  }
  const Run* run = log.version(log.highest_sealed());
  if (run == nullptr) return std::nullopt;
  for (const auto& [index, verified] : run->bundles()) {
    const BundleRecord& record = *verified.as<BundleRecord>();
    const BundleId id = id_as<BundleId>(verified.id());
    std::ifstream meta_file(stage.state("r1-1") / "channels/policy/bundles" / (id.hex() + ".meta"), std::ios::binary);
    const std::string meta_bytes{std::istreambuf_iterator<char>(meta_file), {}};
    auto meta = BundleMeta::decode(as_bytes(meta_bytes), record);
    if (!meta.ok()) continue;
    auto torrent = make_torrent(id, record, meta->chunk_roots);
    if (!torrent.ok()) continue;
    const lt::sha1_hash hash = (*torrent)->info_hashes().get(lt::protocol_version::V2);
    out.hash = std::string(hash.data(), 20);
    out.pieces_root = std::string(record.pieces_root.text());
    return out;
  }
  return std::nullopt;
}

Outcome stranger(Stage& stage) {
  auto at = target(stage);
  if (!at) return {false, "no bundle to attack"};
  const bool member = testing::answers_handshake(at->neighbour, at->address, at->port, at->hash);
  const bool outside = testing::answers_handshake("127.0.0.1", at->address, at->port, at->hash);
  return {member && !outside, "with the right info-hash a member is answered, a stranger is not"};
}

Outcome other_region(Stage& stage) {
  auto at = target(stage);
  if (!at) return {false, "no bundle to attack"};
  const bool answered = testing::answers_handshake(stage.config("r2-1").listen.address, at->address, at->port, at->hash);
  return {!answered, "a member of another region is not answered: swarms are regional"};
}

Outcome guessed(Stage& stage) {
  auto at = target(stage);
  if (!at) return {false, "no bundle to attack"};
  const bool answered = testing::answers_handshake(at->neighbour, at->address, at->port, std::string(20, '\x42'));
  return {!answered, "an info-hash that follows from no signed record is not answered, not even to a member's address"};
}

Outcome hash_messages(Stage& stage) {
  auto at = target(stage);
  if (!at) return {false, "no bundle to attack"};
  std::size_t closed = 0;
  for (char message : {char(21), char(22), char(23)}) {
    std::string body(1, message);
    body += at->pieces_root;
    body += std::string("\0\0\0\0\0\0\0\0\0\0\0\4\0\0\0\0", 16);
    closed += testing::closes_on(at->neighbour, at->address, at->port, at->hash, body);
  }
  std::string why;
  return {closed == 3 && stage.healthy(why), "hash request, hashes and hash reject end the connection; the daemon lives" + why};
}

// A handshake, then these bytes as one message, then half a second for the other side to do its worst.
void say_after_handshake(Stage& stage, const Target& at, const std::string& body) {
  using boost::asio::ip::tcp;
  tcp::socket socket(stage.io());
  boost::system::error_code error;
  socket.open(tcp::v4());
  socket.bind({boost::asio::ip::make_address(at.neighbour), 0}, error);
  socket.connect({boost::asio::ip::make_address(at.address), at.port}, error);
  std::string reserved(8, '\0');
  reserved[7] = 0x14;  // fast extension, v2
  reserved[5] = 0x10;  // extension protocol
  const std::string size{0, 0, 0, static_cast<char>(body.size())};
  boost::asio::write(socket, boost::asio::buffer(std::string(1, 19) + "BitTorrent protocol" + reserved + at.hash +
                                                 "-XX0000-aaaaaaaaaaaa" + size + body), error);
  stage.pump(500);
}

// Whatever comes after the handshake from a member's address.
Outcome garbage_messages(Stage& stage) {
  auto at = target(stage);
  if (!at) return {false, "no bundle to attack"};
  for (const std::string& body :
       {std::string("\x04\xff\xff\xff\xff", 5), std::string("\x05", 1), std::string("\x06\xff\xff\xff\xff\0\0\0\0\0\0\x40\0", 13),
        std::string("\x07\x7f\xff\xff\xff\xff\xff\xff\xff", 9), std::string("\x14\0d1:md11:ut_metadatai1ee1:pi-1ee", 33),
        std::string("\x14\1\xff\xff", 4), std::string("\x63zzz", 4), std::string("\x0d\xff\xff\xff\xff", 5)}) {
    say_after_handshake(stage, *at, body);
  }
  std::string why;
  return {stage.healthy(why), "eight malformed messages from a member's address: the daemon lives" + why};
}

}  // namespace

void add_swarm_attacks(std::vector<Attack>& attacks) {
  attacks.insert(attacks.end(), {{"swarm: a stranger with the right info-hash", stranger},
                                 {"swarm: a member of another region", other_region},
                                 {"swarm: an info-hash that was not published", guessed},
                                 {"swarm: the hash messages that make libtorrent 2.0.8 write out of bounds", hash_messages},
                                 {"swarm: malformed messages from a member's address", garbage_messages}});
}

}  // namespace p2pw::attacks
