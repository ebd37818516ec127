// libtorrent's plugin hooks, translated into calls of SwarmNet. Network thread only.
#pragma once

#include <libtorrent/extensions.hpp>
#include <memory>
#include <string>

#include "daemon/swarm/swarm_net.h"

namespace p2pw {

// One connection to one neighbour for one torrent.
class SwarmConnection final : public lt::peer_plugin {
 public:
  SwarmConnection(std::shared_ptr<SwarmNet> net, std::shared_ptr<SwarmTorrent> torrent,
                  lt::peer_connection_handle handle);
  ~SwarmConnection() override;

  const std::string& address() const { return address_; }
  bool outgoing() const { return outgoing_; }
  bool ready() const { return ready_; }
  std::uint16_t port() const { return port_; }
  // False only when it is known to be somebody else's (an incoming one may not have told its port yet).
  bool belongs_to(const SwarmPeer& member) const;
  Blame::Sender sender() const { return sender_; }
  void set_sender(Blame::Sender sender) { sender_ = sender; }
  bool stalled(Owed::Clock::time_point now, Owed::Clock::duration patience);
  void excuse(Owed::Clock::time_point now) { owed_.excuse(now); }
  void close(const lt::error_code& why);
  // As far as the neighbour has said; lacks: and it can be told of it.
  bool has(ChunkIndex chunk) const;
  bool lacks(ChunkIndex chunk) const;
  // Once more, after libtorrent did: see HaveGate.
  void announce(ChunkIndex chunk);
  // What write_request() kept back.
  void ask(const lt::peer_request& request);
  // What was kept back and is not wanted any more. libtorrent counts on an answer all the same, and only a neighbour
  // that was asked gives one: a refusal, if it has not begun.
  void ask_in_vain(const lt::peer_request& request);

  lt::string_view type() const override { return "p2pw"; }
  void on_connected() override;
  bool on_handshake(lt::span<const char> reserved) override;
  bool on_extension_handshake(const lt::bdecode_node& handshake) override;
  void on_disconnect(const lt::error_code& error) override;
  bool on_have(lt::piece_index_t piece) override;
  bool on_bitfield(const lt::bitfield& pieces) override;
  bool on_have_all() override;
  bool on_not_interested() override;
  bool on_choke() override;
  bool on_piece(const lt::peer_request& piece, lt::span<const char> bytes) override;
  bool on_reject(const lt::peer_request& request) override;
  bool write_request(const lt::peer_request& request) override;
  void sent_request(const lt::peer_request& request) override;
  void sent_cancel(const lt::peer_request& request) override;
  void sent_payload(int bytes) override;

 private:
  void leave();
  void answered(const lt::peer_request& request);
  void send_about(char message_type, const lt::peer_request& request);

  std::shared_ptr<SwarmNet> net_;
  std::shared_ptr<SwarmTorrent> torrent_;
  lt::peer_connection_handle handle_;
  std::string address_;
  std::uint16_t port_ = 0;  // where the neighbour listens; 0: not known yet
  bool outgoing_ = false;
  bool ready_ = false;  // both handshakes are through
  bool left_ = false;
  std::vector<bool> announced_;  // by the neighbour, and perhaps held back; empty before the first time
  Owed owed_;
  Blame::Sender sender_ = 0;
};

std::shared_ptr<lt::plugin> make_session_plugin(std::shared_ptr<SwarmNet> net);
std::shared_ptr<lt::torrent_plugin> make_torrent_plugin(std::shared_ptr<SwarmNet> net,
                                                        std::shared_ptr<SwarmTorrent> torrent);

}  // namespace p2pw
