#include "daemon/swarm/swarm_plugins.h"

#include <libtorrent/bdecode.hpp>
#include <libtorrent/peer_info.hpp>
#include <libtorrent/peer_request.hpp>
#include <stdexcept>

#include "daemon/swarm/peer_internals.h"

namespace p2pw {
namespace {

constexpr int kBlockBytes = lt::default_block_size;
constexpr char kHave = 4, kRequest = 6, kCancel = 8;  // messages of BEP 3

RequestPacer::Request request_of(const lt::peer_request& request) {
  return {static_cast<int>(request.piece), request.start, request.length};
}

class SessionPlugin final : public lt::plugin {
 public:
  explicit SessionPlugin(std::shared_ptr<SwarmNet> net) : net_(std::move(net)) {}

  void abort() override {
    net_->stop();
    net_.reset();
  }

  bool on_unknown_torrent(const lt::info_hash_t& info_hash, const lt::peer_connection_handle& peer,
                          lt::add_torrent_params&) override {
    if (net_) net_->refused_unknown(info_hash.v1, peer.remote().address().to_string());
    return false;
  }

 private:
  std::shared_ptr<SwarmNet> net_;
};

class TorrentPlugin final : public lt::torrent_plugin {
 public:
  TorrentPlugin(std::shared_ptr<SwarmNet> net, std::shared_ptr<SwarmTorrent> torrent)
      : net_(std::move(net)), torrent_(std::move(torrent)) {}

  std::shared_ptr<lt::peer_plugin> new_connection(const lt::peer_connection_handle& peer) override {
    // Throwing closes an incoming connection, but for an outgoing one puts the whole torrent into its error
    // state.
    if (!peer.is_outgoing() && !net_->admits(*torrent_, peer.remote().address().to_string())) {
      net_->refused_stranger();
      throw std::runtime_error("not a member of this region");
    }
    return std::make_shared<SwarmConnection>(net_, torrent_, peer);
  }

  void on_piece_pass(lt::piece_index_t piece) override {
    net_->chunk_held(*torrent_, ChunkIndex(static_cast<std::uint32_t>(static_cast<int>(piece))));
  }

  // SwarmNet::dial() pauses and resumes because resuming is what dials at once: nothing must stop for it.
  bool on_pause() override { return net_->dialling(); }

 private:
  std::shared_ptr<SwarmNet> net_;
  std::shared_ptr<SwarmTorrent> torrent_;
};

}  // namespace

SwarmConnection::SwarmConnection(std::shared_ptr<SwarmNet> net, std::shared_ptr<SwarmTorrent> torrent,
                                 lt::peer_connection_handle handle)
    : net_(std::move(net)),
      torrent_(std::move(torrent)),
      handle_(std::move(handle)),
      address_(handle_.remote().address().to_string()),
      outgoing_(handle_.is_outgoing()) {
  if (outgoing_) {
    port_ = handle_.remote().port();
    allow_hash_exchange(handle_, true);
  } else {
    set_no_delay(handle_);
  }
  net_->connection_opened(*torrent_, *this);
}

SwarmConnection::~SwarmConnection() {
  leave();
}

void SwarmConnection::leave() {
  if (left_) return;
  left_ = true;
  net_->connection_closed(*torrent_, *this);
}

bool SwarmConnection::belongs_to(const SwarmPeer& member) const {
  return address_ == member.address && (port_ == 0 || port_ == member.port);
}

bool SwarmConnection::stalled(Owed::Clock::time_point now, Owed::Clock::duration patience) {
  if (!owed_.stalled(now, patience)) return false;
  // Our count can be too high (requests that libtorrent took back silently); its own queue decides.
  lt::peer_info info;
  handle_.get_peer_info(info);
  if (info.download_queue_length > 0) return true;
  owed_.cleared();
  return false;
}

void SwarmConnection::close(const lt::error_code& why) {
  if (!handle_.is_disconnecting()) handle_.disconnect(why, lt::operation_t::bittorrent);
}

bool SwarmConnection::lacks(ChunkIndex chunk) const {
  return ready_ && !left_ && !handle_.is_disconnecting() && !has(chunk);
}

bool SwarmConnection::has(ChunkIndex chunk) const {
  if (chunk.value() < announced_.size() && announced_[chunk.value()]) return true;
  return handle_.has_piece(lt::piece_index_t(static_cast<int>(chunk.value())));
}

void SwarmConnection::announce(ChunkIndex chunk) {
  char message[9] = {0, 0, 0, 5, kHave};
  for (int i = 0; i < 4; ++i) message[5 + i] = static_cast<char>(chunk.value() >> (24 - 8 * i));
  handle_.send_buffer(message, sizeof message);
}

void SwarmConnection::send_about(char message_type, const lt::peer_request& request) {
  char message[17] = {0, 0, 0, 13, message_type};
  const int fields[] = {static_cast<int>(request.piece), request.start, request.length};
  for (int i = 0; i < 12; ++i) message[5 + i] = static_cast<char>(fields[i / 4] >> (24 - 8 * (i % 4)));
  handle_.send_buffer(message, sizeof message);
}

void SwarmConnection::ask(const lt::peer_request& request) {
  send_about(kRequest, request);
  owed_.requested(Owed::Clock::now());
}

void SwarmConnection::ask_in_vain(const lt::peer_request& request) {
  ask(request);
  send_about(kCancel, request);
}

bool SwarmConnection::on_have(lt::piece_index_t piece) {
  const ChunkIndex chunk(static_cast<std::uint32_t>(static_cast<int>(piece)));
  const std::uint32_t chunks = torrent_->file ? torrent_->file->chunk_count() : 0;
  if (chunk.value() >= chunks) return false;
  if (announced_.empty()) announced_.resize(chunks, false);
  const bool again = announced_[chunk.value()];
  announced_[chunk.value()] = true;
  net_->announced(*torrent_, chunk);
  return !torrent_->gate.opens(chunk, again, torrent_->connections.size());
}

bool SwarmConnection::on_bitfield(const lt::bitfield& pieces) {
  for (int i = 0; i < pieces.size(); ++i) {
    if (!pieces.get_bit(i)) continue;
    torrent_->gate.known(ChunkIndex(static_cast<std::uint32_t>(i)));
    net_->announced(*torrent_, ChunkIndex(static_cast<std::uint32_t>(i)));
  }
  return false;
}

bool SwarmConnection::on_have_all() {
  torrent_->gate.all_known();
  net_->announced_all(*torrent_);
  return false;
}

void SwarmConnection::on_connected() {
  set_no_delay(handle_);
  if (!net_->admits(*torrent_, address_, port_)) close(lt::errors::banned_by_ip_filter);
}

bool SwarmConnection::on_handshake(lt::span<const char>) {
  ready_ = true;
  // Without this a neighbour could make us write out of bounds: better no neighbour.
  if (!allow_hash_exchange(handle_, false)) close(lt::errors::invalid_hash_request);
  return true;
}

bool SwarmConnection::on_extension_handshake(const lt::bdecode_node& handshake) {
  const std::int64_t port = handshake.dict_find_int_value("p", 0);
  if (port_ == 0 && port > 0 && port < 65536) {
    port_ = static_cast<std::uint16_t>(port);
    net_->connection_known(*torrent_);
  }
  return true;
}

void SwarmConnection::on_disconnect(const lt::error_code&) {
  leave();
}

// A neighbour that has all we have is not interested until our next chunk; libtorrent would choke it
// meanwhile, and each chunk would cost it a round trip to be unchoked again.
bool SwarmConnection::on_not_interested() {
  return true;
}

void SwarmConnection::answered(const lt::peer_request& request) {
  const auto now = Owed::Clock::now();
  owed_.answered(now);
  net_->pacer().answered(this, request_of(request), now);
  net_->go_on_asking();
}

bool SwarmConnection::on_choke() {
  owed_.cleared();
  net_->pacer().choked(this);
  net_->go_on_asking();
  return false;
}

bool SwarmConnection::on_piece(const lt::peer_request& piece, lt::span<const char> bytes) {
  answered(piece);
  net_->payload_received(static_cast<int>(bytes.size()));
  const ChunkIndex chunk(static_cast<std::uint32_t>(static_cast<int>(piece.piece)));
  if (!torrent_->file->has(chunk)) {
    torrent_->blame.received(chunk, static_cast<std::uint32_t>(piece.start / kBlockBytes),
                             torrent_->file->record().chunk_bytes / kBlockBytes, sender_);
  }
  return false;
}

bool SwarmConnection::on_reject(const lt::peer_request& request) {
  answered(request);
  return false;
}

bool SwarmConnection::write_request(const lt::peer_request& request) {
  return !net_->pacer().ask(address_, this, request_of(request), Owed::Clock::now());
}

void SwarmConnection::sent_request(const lt::peer_request&) {
  owed_.requested(Owed::Clock::now());
}

void SwarmConnection::sent_cancel(const lt::peer_request& request) {
  if (net_->pacer().cancelled(this, request_of(request))) return net_->go_on_asking();  // it was never owed
  owed_.answered(Owed::Clock::now());
}

void SwarmConnection::sent_payload(int bytes) {
  net_->payload_sent(bytes);
}

std::shared_ptr<lt::plugin> make_session_plugin(std::shared_ptr<SwarmNet> net) {
  return std::make_shared<SessionPlugin>(std::move(net));
}

std::shared_ptr<lt::torrent_plugin> make_torrent_plugin(std::shared_ptr<SwarmNet> net,
                                                        std::shared_ptr<SwarmTorrent> torrent) {
  return std::make_shared<TorrentPlugin>(std::move(net), std::move(torrent));
}

}  // namespace p2pw
