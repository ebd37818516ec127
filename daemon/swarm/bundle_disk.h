// libtorrent's disk, on bundle files. One storage per torrent; which file belongs to it is told by expect()
// just before the torrent is added.
//
// Blocks from neighbours are gathered in memory until their chunk is whole, then hashed, and only a chunk
// whose hash matches is written, with one call, and marked. So nothing unverified reaches a bundle file, and
// the listener hears of a chunk at the moment in which others can read it. When more than kMaxGathered bytes
// are being gathered, further chunks go through the file block by block instead. A chunk that the file has
// already (it came over a link) is never written again: blocks that libtorrent hands in for it, add_piece()
// included, are dropped, and its hash is computed from the file.
//
// Threads: libtorrent calls everything on its network thread, and so must expect() be. Hashing, writing and
// reads that the page cache cannot serve happen on a pool; results are posted back to the network thread.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <libtorrent/disk_buffer_holder.hpp>
#include <libtorrent/disk_interface.hpp>
#include <libtorrent/io_context.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "chunker/bundle_file.h"
#include "daemon/swarm/job_pool.h"

namespace p2pw {

class DiskListener {
 public:
  virtual ~DiskListener() = default;
  // A chunk from neighbours has been checked, written and marked. Called on a pool thread.
  virtual void chunk_stored(const BundleId& bundle, ChunkIndex chunk) = 0;
  // The outcome for a chunk from neighbours, before libtorrent learns of it: the hashes of its 16 KiB blocks.
  // Called on the network thread.
  virtual void chunk_checked(const BundleId& bundle, ChunkIndex chunk, bool passed,
                             const std::vector<Sha256>& blocks) = 0;
};

class BundleDisk final : public lt::disk_interface, public lt::buffer_allocator_interface {
 public:
  static constexpr std::uint64_t kMaxGathered = 64u << 20;

  BundleDisk(lt::io_context& io, std::shared_ptr<DiskListener> listener, int threads);
  ~BundleDisk() override;

  // The torrent that is added next with `save_path` keeps its bytes in `file`.
  void expect(const std::string& save_path, const BundleId& id, std::shared_ptr<BundleFile> file);

  lt::storage_holder new_torrent(const lt::storage_params& params,
                                 const std::shared_ptr<void>& torrent) override;
  void remove_torrent(lt::storage_index_t index) override;
  void async_read(lt::storage_index_t storage, const lt::peer_request& request,
                  std::function<void(lt::disk_buffer_holder, const lt::storage_error&)> handler,
                  lt::disk_job_flags_t flags) override;
  bool async_write(lt::storage_index_t storage, const lt::peer_request& request, const char* bytes,
                   std::shared_ptr<lt::disk_observer> observer,
                   std::function<void(const lt::storage_error&)> handler,
                   lt::disk_job_flags_t flags) override;
  void async_hash(lt::storage_index_t storage, lt::piece_index_t piece, lt::span<lt::sha256_hash> blocks,
                  lt::disk_job_flags_t flags,
                  std::function<void(lt::piece_index_t, const lt::sha1_hash&, const lt::storage_error&)>
                      handler) override;
  void async_hash2(lt::storage_index_t storage, lt::piece_index_t piece, int offset,
                   lt::disk_job_flags_t flags,
                   std::function<void(lt::piece_index_t, const lt::sha256_hash&, const lt::storage_error&)>
                       handler) override;
  void async_move_storage(
      lt::storage_index_t storage, std::string path, lt::move_flags_t flags,
      std::function<void(lt::status_t, const std::string&, const lt::storage_error&)> handler) override;
  void async_release_files(lt::storage_index_t storage, std::function<void()> handler) override;
  void async_check_files(lt::storage_index_t storage, const lt::add_torrent_params* resume_data,
                         lt::aux::vector<std::string, lt::file_index_t> links,
                         std::function<void(lt::status_t, const lt::storage_error&)> handler) override;
  void async_stop_torrent(lt::storage_index_t storage, std::function<void()> handler) override;
  void async_rename_file(
      lt::storage_index_t storage, lt::file_index_t index, std::string name,
      std::function<void(const std::string&, lt::file_index_t, const lt::storage_error&)> handler) override;
  void async_delete_files(lt::storage_index_t storage, lt::remove_flags_t options,
                          std::function<void(const lt::storage_error&)> handler) override;
  void async_set_file_priority(lt::storage_index_t storage,
                               lt::aux::vector<lt::download_priority_t, lt::file_index_t> priorities,
                               std::function<void(const lt::storage_error&,
                                                  lt::aux::vector<lt::download_priority_t, lt::file_index_t>)>
                                   handler) override;
  void async_clear_piece(lt::storage_index_t storage, lt::piece_index_t piece,
                         std::function<void(lt::piece_index_t)> handler) override;
  void update_stats_counters(lt::counters&) const override {}
  std::vector<lt::open_file_state> get_status(lt::storage_index_t) const override { return {}; }
  void abort(bool wait) override;
  void submit_jobs() override {}
  void settings_updated() override {}
  void free_disk_buffer(char* buffer) override { delete[] buffer; }

 private:
  using Gathered = std::shared_ptr<std::vector<char>>;
  struct Store {
    BundleId id;
    std::shared_ptr<BundleFile> file;
    std::unordered_map<int, Gathered> gathered;  // by piece
    std::unordered_set<int> direct;              // pieces whose blocks go straight to the file
  };
  struct HashJob;

  std::shared_ptr<Store> store(lt::storage_index_t index) const;
  std::vector<char>* buffer_for(Store& store, int piece);
  void forget(Store& store, int piece);
  void hash(HashJob& job);
  void hashed(HashJob& job);
  // Runs `result` on the network thread; many results share one post.
  void complete(std::function<void()> result);

  struct Results {
    std::mutex mutex;
    std::vector<std::function<void()>> waiting;
    void run();
  };

  lt::io_context& io_;
  std::shared_ptr<DiskListener> listener_;
  std::shared_ptr<Results> results_ = std::make_shared<Results>();
  std::optional<boost::asio::executor_work_guard<lt::io_context::executor_type>> guard_;
  std::map<std::string, std::shared_ptr<Store>> expected_;
  std::vector<std::shared_ptr<Store>> stores_;
  std::vector<Gathered> spare_;  // buffers to use again: fresh ones cost a page fault for each 4 KiB
  std::uint64_t gathered_bytes_ = 0;
  std::size_t spare_bytes_ = 0;
  JobPool readers_;  // of what is in the file: whoever waits for that does not wait for a slow disk's writes
  JobPool pool_;
};

}  // namespace p2pw
