#include "daemon/swarm/session_settings.h"

#include <algorithm>
#include <libtorrent/address.hpp>
#include <libtorrent/alert.hpp>
#include <libtorrent/peer_class.hpp>
#include <libtorrent/peer_class_type_filter.hpp>
#include <libtorrent/session_handle.hpp>
#include <limits>

namespace p2pw {
namespace {

using Pack = lt::settings_pack;

constexpr int kMiB = 1 << 20;
constexpr int kMaxFailcount = 100;  // libtorrent counts to 31

void only_what_we_are_told(Pack& pack) {
  for (int name :
       {Pack::enable_dht, Pack::enable_lsd, Pack::enable_upnp, Pack::enable_natpmp, Pack::enable_ip_notifier,
        Pack::enable_incoming_utp, Pack::enable_outgoing_utp, Pack::announce_to_all_trackers,
        Pack::support_share_mode, Pack::no_connect_privileged_ports}) {
    pack.set_bool(name, false);
  }
  pack.set_int(Pack::in_enc_policy, Pack::pe_disabled);
  pack.set_int(Pack::out_enc_policy, Pack::pe_disabled);
  pack.set_str(Pack::handshake_client_version, "");
  pack.set_str(Pack::dht_bootstrap_nodes, "");
  pack.set_int(Pack::alert_mask,
               static_cast<int>(static_cast<std::uint32_t>(
                   lt::alert_category::error | lt::alert_category::ip_block | lt::alert_category::peer)));
  pack.set_int(Pack::alert_queue_size, 20'000);
}

void dialling(Pack& pack) {
  // A refused dial may be repeated at once; when is decided by DialTimer. connection_speed bounds
  // libtorrent's own round, once a second, which is left as the slow way to reach members that do not have a
  // bundle for long.
  pack.set_int(Pack::min_reconnect_time, 0);
  pack.set_int(Pack::max_failcount, kMaxFailcount);
  pack.set_int(Pack::connection_speed, 20);
  pack.set_int(Pack::torrent_connect_boost, 255);
  pack.set_bool(Pack::smooth_connects, false);
  pack.set_bool(Pack::allow_multiple_connections_per_ip, true);
  pack.set_bool(Pack::incoming_starts_queued_torrents,
                true);  // else connections are refused before we hear of them
  pack.set_int(Pack::connections_limit, 16'000);
  pack.set_int(Pack::listen_queue_size, 512);
  pack.set_int(Pack::peer_connect_timeout, 3);
  pack.set_int(Pack::handshake_timeout, 5);
  pack.set_int(Pack::peer_timeout, 30);
  pack.set_int(Pack::inactivity_timeout, 600);
  pack.set_int(Pack::peer_turnover, 0);
  // When a node becomes complete its connections would be closed as redundant and dialled again a second
  // later, while others still wait for the last chunk.
  pack.set_bool(Pack::close_redundant_connections, false);
}

void flow(Pack& pack) {
  pack.set_int(Pack::mixed_mode_algorithm, Pack::prefer_tcp);
  pack.set_bool(Pack::rate_limit_ip_overhead, false);
  pack.set_int(Pack::unchoke_slots_limit, -1);
  pack.set_int(Pack::allowed_fast_set_size, 0);
  pack.set_int(Pack::max_out_request_queue, 500);
  pack.set_int(Pack::max_allowed_in_request_queue, 2000);
  // More than 1 s overflows in 2.0.8 above 715 MB/s a connection.
  pack.set_int(Pack::request_queue_time, 1);
  pack.set_int(Pack::piece_timeout, 2);
  pack.set_int(Pack::request_timeout, 3);
  pack.set_int(Pack::send_buffer_low_watermark, kMiB);
  pack.set_int(Pack::send_buffer_watermark, 4 * kMiB);
  pack.set_int(Pack::send_buffer_watermark_factor, 150);
  pack.set_int(Pack::send_not_sent_low_watermark, kMiB);
  pack.set_int(Pack::max_queued_disk_bytes, 64 * kMiB);
  pack.set_int(Pack::initial_picker_threshold, 0);
  pack.set_bool(Pack::auto_sequential, false);
  pack.set_int(Pack::suggest_mode, Pack::no_piece_suggestions);
  pack.set_int(Pack::predictive_piece_announce, 0);
  pack.set_bool(Pack::strict_end_game_mode, true);
  pack.set_int(Pack::tick_interval, 100);
  pack.set_int(Pack::active_limit, -1);
  pack.set_bool(Pack::use_parole_mode, true);
}

int as_limit(std::uint64_t bytes_per_second) {
  return static_cast<int>(std::min<std::uint64_t>(bytes_per_second, std::numeric_limits<int>::max()));
}

}  // namespace

lt::settings_pack session_settings(const SwarmOptions& options) {
  Pack pack;
  only_what_we_are_told(pack);
  dialling(pack);
  flow(pack);
  const bool v6 = options.address.find(':') != std::string::npos;
  pack.set_str(Pack::listen_interfaces,
               (v6 ? "[" + options.address + "]" : options.address) + ":" + std::to_string(options.port));
  pack.set_str(Pack::outgoing_interfaces, options.address);
  pack.set_int(Pack::max_retry_port_bind, 0);
  pack.set_bool(Pack::listen_system_port_fallback, false);
  return pack;
}

lt::ip_filter members_only(const std::vector<SwarmPeer>& members) {
  lt::ip_filter filter;
  filter.add_rule(lt::make_address_v4("0.0.0.0"), lt::make_address_v4("255.255.255.255"),
                  lt::ip_filter::blocked);
  filter.add_rule(lt::make_address_v6("::"), lt::make_address_v6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
                  lt::ip_filter::blocked);
  for (const SwarmPeer& member : members) {
    lt::error_code error;
    const lt::address address = lt::make_address(member.address, error);
    if (!error) filter.add_rule(address, address, 0);
  }
  return filter;
}

// A list's own copy begins with 3.
void never_give_up_on_peers(lt::session_handle& session, bool turn) {
  Pack pack;
  pack.set_int(Pack::max_failcount, kMaxFailcount + (turn ? 1 : 0));
  session.apply_settings(std::move(pack));
}

void set_region_class(lt::session_handle& session, const SwarmOptions& options) {
  const lt::peer_class_t region = session.create_peer_class("region");
  lt::peer_class_info info = session.get_peer_class(region);
  info.ignore_unchoke_slots = true;
  info.connection_limit_factor = 100;
  info.upload_limit = as_limit(options.upload_limit);
  info.download_limit = as_limit(options.download_limit);
  session.set_peer_class(region, info);

  lt::ip_filter classes;
  const auto bit = std::uint32_t(1) << static_cast<std::uint32_t>(region);
  classes.add_rule(lt::make_address_v4("0.0.0.0"), lt::make_address_v4("255.255.255.255"), bit);
  classes.add_rule(lt::make_address_v6("::"), lt::make_address_v6("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
                   bit);
  session.set_peer_class_filter(classes);
  session.set_peer_class_type_filter(lt::peer_class_type_filter());
}

}  // namespace p2pw
