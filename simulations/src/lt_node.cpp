// A plain libtorrent client for simulations/baselines: what a swarm does when everybody is connected to
// everybody, with libtorrent's defaults but without uTP (which stalls in 2.0.8) and without finding anybody
// by itself.
//
//   p2pw-lt-node make FILE OUT.torrent [--v1] [--tracker URL] [--piece-kib N]
//   p2pw-lt-node run TORRENT FOLDER ADDRESS PORT [--seed] [--peer ADDRESS:PORT]...
//
// `run` prints one JSON line when it listens and one when it has everything, and goes on seeding until it is
// killed.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <libtorrent/add_torrent_params.hpp>
#include <libtorrent/alert_types.hpp>
#include <libtorrent/create_torrent.hpp>
#include <libtorrent/load_torrent.hpp>
#include <libtorrent/session.hpp>
#include <libtorrent/session_params.hpp>
#include <libtorrent/torrent_info.hpp>

namespace {

struct MakeOptions {
  std::string file, out, tracker;
  bool v1 = false;
  int piece_kib = 1024;
};

struct RunOptions {
  std::string torrent, folder, address;
  int port = 0;
  bool seed = false;
  std::vector<std::string> peers;
};

int make(const MakeOptions& options) {
  lt::file_storage files;
  lt::add_files(files, options.file);
  lt::create_torrent torrent(files, options.piece_kib * 1024,
                             options.v1 ? lt::create_torrent::v1_only : lt::create_torrent::v2_only);
  if (!options.tracker.empty()) torrent.add_tracker(options.tracker);
  lt::set_piece_hashes(torrent, std::filesystem::path(options.file).parent_path().string());
  const std::vector<char> bytes = torrent.generate_buf();
  std::ofstream(options.out, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return 0;
}

lt::settings_pack settings(const RunOptions& options) {
  lt::settings_pack pack;
  for (int name : {lt::settings_pack::enable_dht, lt::settings_pack::enable_lsd,
                   lt::settings_pack::enable_upnp, lt::settings_pack::enable_natpmp,
                   lt::settings_pack::enable_incoming_utp, lt::settings_pack::enable_outgoing_utp}) {
    pack.set_bool(name, false);
  }
  pack.set_str(lt::settings_pack::listen_interfaces, options.address + ":" + std::to_string(options.port));
  pack.set_int(
      lt::settings_pack::alert_mask,
      static_cast<int>(static_cast<std::uint32_t>(lt::alert_category::error | lt::alert_category::status)));
  return pack;
}

lt::add_torrent_params torrent(const RunOptions& options) {
  lt::add_torrent_params params = lt::load_torrent_file(options.torrent);
  params.save_path = options.folder;
  params.flags &= ~(lt::torrent_flags::auto_managed);
  params.flags |= lt::torrent_flags::paused;
  if (options.seed) {
    params.flags |= lt::torrent_flags::no_verify_files;
    params.have_pieces.resize(params.ti->num_pieces(), true);
  }
  for (const std::string& peer : options.peers) {
    const auto colon = peer.rfind(':');
    params.peers.emplace_back(lt::make_address(peer.substr(0, colon)),
                              static_cast<std::uint16_t>(std::stoi(peer.substr(colon + 1))));
  }
  return params;
}

int run(const RunOptions& options) {
  lt::session session(lt::session_params(settings(options), {}));
  std::cout << "{\"port\": " << session.listen_port() << "}" << std::endl;
  const auto start = std::chrono::steady_clock::now();
  const lt::torrent_handle handle = session.add_torrent(torrent(options));
  while (true) {
    session.wait_for_alert(std::chrono::seconds(10));
    std::vector<lt::alert*> alerts;
    session.pop_alerts(&alerts);
    for (lt::alert* alert : alerts) {
      // Peers of a torrent that is resumed are dialled at once rather than at the next second.
      if (lt::alert_cast<lt::torrent_checked_alert>(alert)) handle.resume();
      if (lt::alert_cast<lt::torrent_finished_alert>(alert)) {
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        std::cout << "{\"seconds\": " << took.count() << "}" << std::endl;
      }
      if (auto* failed = lt::alert_cast<lt::torrent_error_alert>(alert)) {
        std::cerr << "p2pw-lt-node: " << failed->message() << std::endl;
        return 1;
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A plain libtorrent client, to compare with.");
  app.require_subcommand(1);
  MakeOptions made;
  CLI::App* make_verb = app.add_subcommand("make", "a torrent of one file");
  make_verb->add_option("FILE", made.file)->required();
  make_verb->add_option("OUT", made.out)->required();
  make_verb->add_flag("--v1", made.v1, "for clients that do not know v2");
  make_verb->add_option("--tracker", made.tracker);
  make_verb->add_option("--piece-kib", made.piece_kib);
  RunOptions ran;
  CLI::App* run_verb = app.add_subcommand("run", "fetch, then seed until killed");
  run_verb->add_option("TORRENT", ran.torrent)->required();
  run_verb->add_option("FOLDER", ran.folder)->required();
  run_verb->add_option("ADDRESS", ran.address)->required();
  run_verb->add_option("PORT", ran.port)->required();
  run_verb->add_flag("--seed", ran.seed, "the folder has the whole file");
  run_verb->add_option("--peer", ran.peers);
  CLI11_PARSE(app, argc, argv);
  try {
    return make_verb->parsed() ? make(made) : run(ran);
  } catch (const std::exception& e) {
    std::cerr << "p2pw-lt-node: " << e.what() << std::endl;
    return 1;
  }
}
