#include "daemon/swarm/bundle_disk.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstring>
#include <libtorrent/add_torrent_params.hpp>
#include <libtorrent/error_code.hpp>
#include <libtorrent/peer_request.hpp>
#include <libtorrent/storage_defs.hpp>

#include "protocol/hash.h"

namespace p2pw {
namespace {

constexpr std::size_t kBlockBytes = lt::default_block_size;
constexpr std::size_t kMaxSpareBytes = 16u << 20;

lt::storage_error to_storage_error(const Status& status, lt::operation_t operation) {
  if (status.ok()) return {};
  auto reason = status.error().code == ErrorCode::no_space ? boost::system::errc::no_space_on_device
                                                           : boost::system::errc::io_error;
  return lt::storage_error(lt::error_code(reason, boost::system::generic_category()), lt::file_index_t(0),
                           operation);
}

lt::storage_error no_store(lt::operation_t operation) {
  return to_storage_error(fail(ErrorCode::io, "a torrent without a bundle file"), operation);
}

lt::storage_error not_supported() {
  return lt::storage_error(
      lt::error_code(boost::system::errc::operation_not_supported, boost::system::generic_category()));
}

std::span<std::byte> writable(char* bytes, std::size_t size) {
  return {reinterpret_cast<std::byte*>(bytes), size};
}
ByteView readable(const char* bytes, std::size_t size) {
  return {reinterpret_cast<const std::byte*>(bytes), size};
}

// A free buffer that is not lost when the result that carries it is never run.
using ReadBuffer = std::shared_ptr<std::unique_ptr<char[]>>;

}  // namespace

struct BundleDisk::HashJob {
  std::shared_ptr<Store> store;
  int piece = 0;
  Gathered gathered;  // none: read it from the file
  lt::span<lt::sha256_hash> out;
  std::function<void(lt::piece_index_t, const lt::sha1_hash&, const lt::storage_error&)> handler;
  std::vector<Sha256> blocks;
  bool from_neighbours = false;
  bool passed = false;
  lt::storage_error error;
};

BundleDisk::BundleDisk(lt::io_context& io, std::shared_ptr<DiskListener> listener, int threads)
    : io_(io), listener_(std::move(listener)), guard_(boost::asio::make_work_guard(io)), readers_(1), pool_(threads) {}

BundleDisk::~BundleDisk() {
  abort(true);
}

void BundleDisk::abort(bool) {
  readers_.stop();
  pool_.stop();
  guard_.reset();
}

void BundleDisk::Results::run() {
  std::vector<std::function<void()>> ready;
  {
    std::lock_guard lock(mutex);
    ready.swap(waiting);
  }
  for (auto& result : ready) result();
}

void BundleDisk::complete(std::function<void()> result) {
  bool first;
  {
    std::lock_guard lock(results_->mutex);
    first = results_->waiting.empty();
    results_->waiting.push_back(std::move(result));
  }
  if (first) boost::asio::post(io_, [results = results_] { results->run(); });
}

void BundleDisk::expect(const std::string& save_path, const BundleId& id, std::shared_ptr<BundleFile> file) {
  auto store = std::make_shared<Store>();
  store->id = id;
  store->file = std::move(file);
  expected_[save_path] = std::move(store);
}

lt::storage_holder BundleDisk::new_torrent(const lt::storage_params& params, const std::shared_ptr<void>&) {
  std::shared_ptr<Store> store;
  if (auto it = expected_.find(params.path); it != expected_.end()) {
    store = std::move(it->second);
    expected_.erase(it);
  } else {
    store = std::make_shared<Store>();
  }
  auto slot = std::find(stores_.begin(), stores_.end(), nullptr);
  if (slot == stores_.end()) slot = stores_.insert(slot, nullptr);
  *slot = std::move(store);
  return lt::storage_holder(lt::storage_index_t(static_cast<std::uint32_t>(slot - stores_.begin())), *this);
}

void BundleDisk::remove_torrent(lt::storage_index_t index) {
  std::shared_ptr<Store> store = std::move(stores_[static_cast<std::uint32_t>(index)]);
  while (!store->gathered.empty()) forget(*store, store->gathered.begin()->first);
}

std::shared_ptr<BundleDisk::Store> BundleDisk::store(lt::storage_index_t index) const {
  return stores_[static_cast<std::uint32_t>(index)];
}

std::vector<char>* BundleDisk::buffer_for(Store& store, int piece) {
  if (auto it = store.gathered.find(piece); it != store.gathered.end()) return it->second.get();
  if (store.direct.contains(piece)) return nullptr;
  const std::size_t size = store.file->record().chunk_bytes;
  if (gathered_bytes_ + size > kMaxGathered) {
    store.direct.insert(piece);
    return nullptr;
  }
  Gathered buffer;
  if (!spare_.empty()) {
    buffer = std::move(spare_.back());
    spare_.pop_back();
    spare_bytes_ -= buffer->capacity();
    buffer->resize(size);
  } else {
    buffer = std::make_shared<std::vector<char>>(size);
  }
  gathered_bytes_ += size;
  return store.gathered.emplace(piece, std::move(buffer)).first->second.get();
}

void BundleDisk::forget(Store& store, int piece) {
  store.direct.erase(piece);
  auto it = store.gathered.find(piece);
  if (it == store.gathered.end()) return;
  gathered_bytes_ -= it->second->size();
  // Still being hashed when the torrent is removed meanwhile: then it is not free to use again.
  if (it->second.use_count() == 1 && spare_bytes_ + it->second->capacity() <= kMaxSpareBytes) {
    spare_bytes_ += it->second->capacity();
    spare_.push_back(std::move(it->second));
  }
  store.gathered.erase(it);
}

void BundleDisk::async_read(lt::storage_index_t index, const lt::peer_request& request,
                            std::function<void(lt::disk_buffer_holder, const lt::storage_error&)> handler,
                            lt::disk_job_flags_t) {
  std::shared_ptr<Store> store = this->store(index);
  if (!store->file) {
    return complete([handler = std::move(handler)] { handler({}, no_store(lt::operation_t::file_read)); });
  }
  const int piece = static_cast<int>(request.piece);
  const std::size_t size = static_cast<std::size_t>(request.length);
  const std::uint64_t offset = std::uint64_t(piece) * store->file->record().chunk_bytes + request.start;
  auto buffer = std::make_shared<std::unique_ptr<char[]>>(new char[size]);
  auto done = [this, handler = std::move(handler), buffer, size](const Status& status) {
    if (!status.ok()) return handler({}, to_storage_error(status, lt::operation_t::file_read));
    handler(lt::disk_buffer_holder(*this, buffer->release(), static_cast<int>(size)), {});
  };

  auto gathered = store->gathered.find(piece);
  if (gathered != store->gathered.end() && !store->file->has(ChunkIndex(piece))) {
    std::memcpy(buffer->get(), gathered->second->data() + request.start, size);
    return complete([done] { done({}); });
  }
  if (store->file->read_if_cached(offset, writable(buffer->get(), size))) {
    return complete([done] { done({}); });
  }
  readers_.add([this, store, offset, buffer, size, done = std::move(done)] {
    Status status = store->file->read(offset, writable(buffer->get(), size));
    complete([done, status] { done(status); });
  });
}

bool BundleDisk::async_write(lt::storage_index_t index, const lt::peer_request& request, const char* bytes,
                             std::shared_ptr<lt::disk_observer>,
                             std::function<void(const lt::storage_error&)> handler, lt::disk_job_flags_t) {
  std::shared_ptr<Store> store = this->store(index);
  const int piece = static_cast<int>(request.piece);
  const std::size_t size = static_cast<std::size_t>(request.length);
  lt::storage_error error;
  if (!store->file) {
    error = no_store(lt::operation_t::file_write);
  } else if (!store->file->has(ChunkIndex(piece))) {
    if (std::vector<char>* buffer = buffer_for(*store, piece)) {
      std::memcpy(buffer->data() + request.start, bytes, size);
    } else {
      const std::uint64_t offset = std::uint64_t(piece) * store->file->record().chunk_bytes + request.start;
      error =
          to_storage_error(store->file->write(offset, readable(bytes, size)), lt::operation_t::file_write);
    }
  }
  complete([handler = std::move(handler), error] { handler(error); });
  return false;
}

void BundleDisk::async_hash(
    lt::storage_index_t index, lt::piece_index_t piece, lt::span<lt::sha256_hash> blocks,
    lt::disk_job_flags_t,
    std::function<void(lt::piece_index_t, const lt::sha1_hash&, const lt::storage_error&)> handler) {
  auto job = std::make_shared<HashJob>();
  job->store = store(index);
  job->piece = static_cast<int>(piece);
  job->out = blocks;
  job->handler = std::move(handler);
  if (!job->store->file) {
    return complete(
        [job] { job->handler(lt::piece_index_t(job->piece), {}, no_store(lt::operation_t::file_read)); });
  }
  job->from_neighbours = !job->store->file->has(ChunkIndex(job->piece));
  auto it = job->store->gathered.find(job->piece);
  if (job->from_neighbours && it != job->store->gathered.end()) job->gathered = it->second;
  JobPool& pool = job->gathered ? pool_ : readers_;
  pool.add([this, job] {
    hash(*job);
    complete([this, job] { hashed(*job); });
  });
}

// On the pool.
void BundleDisk::hash(HashJob& job) {
  BundleFile& file = *job.store->file;
  const ChunkIndex chunk(static_cast<std::uint32_t>(job.piece));
  const std::size_t size = file.record().chunk_bytes;
  const std::uint64_t offset = std::uint64_t(job.piece) * size;

  std::vector<char> from_file;
  if (!job.gathered) {
    from_file.resize(size);
    Status read = file.read(offset, writable(from_file.data(), size));
    job.error = to_storage_error(read, lt::operation_t::file_read);
    if (!read.ok()) return;
  }
  const ByteView bytes = readable(job.gathered ? job.gathered->data() : from_file.data(), size);

  std::vector<ChunkRoot> leaves;
  leaves.reserve(size / kBlockBytes);
  for (std::size_t at = 0; at < size; at += kBlockBytes) {
    job.blocks.push_back(sha256(bytes.subspan(at, kBlockBytes)));
    leaves.push_back(id_as<ChunkRoot>(job.blocks.back()));
  }
  for (std::size_t i = 0; i < job.blocks.size() && i < static_cast<std::size_t>(job.out.size()); ++i) {
    std::memcpy(job.out[static_cast<std::ptrdiff_t>(i)].data(), job.blocks[i].data.data(), Sha256::kSize);
  }
  // A chunk is a power of two of whole blocks, so its tree needs no padding.
  const Sha256 root = pieces_root(leaves, kBlockBytes);
  job.passed = id_as<ChunkRoot>(root) == file.roots()[chunk.value()];
  if (!job.passed || file.has(chunk)) return;

  if (job.gathered) {
    Status written = file.write(offset, bytes);
    job.error = to_storage_error(written, lt::operation_t::file_write);
    if (!written.ok()) return;
  }
  file.mark(chunk);
  listener_->chunk_stored(job.store->id, chunk);
}

// On the network thread.
void BundleDisk::hashed(HashJob& job) {
  job.gathered.reset();
  if (!job.error) {
    if (job.from_neighbours) {
      listener_->chunk_checked(job.store->id, ChunkIndex(static_cast<std::uint32_t>(job.piece)), job.passed,
                               job.blocks);
    }
    // A chunk that failed stays readable until libtorrent clears it.
    if (job.passed) forget(*job.store, job.piece);
  }
  job.handler(lt::piece_index_t(job.piece), {}, job.error);
}

void BundleDisk::async_hash2(
    lt::storage_index_t index, lt::piece_index_t piece, int offset, lt::disk_job_flags_t,
    std::function<void(lt::piece_index_t, const lt::sha256_hash&, const lt::storage_error&)> handler) {
  std::shared_ptr<Store> store = this->store(index);
  readers_.add([this, store, piece, offset, handler = std::move(handler)] {
    lt::sha256_hash hash;
    lt::storage_error error = no_store(lt::operation_t::file_read);
    if (store->file) {
      const std::size_t chunk = store->file->record().chunk_bytes;
      std::vector<char> bytes(std::min(kBlockBytes, chunk - static_cast<std::size_t>(offset)));
      Status read = store->file->read(std::uint64_t(static_cast<int>(piece)) * chunk + offset,
                                      writable(bytes.data(), bytes.size()));
      error = to_storage_error(read, lt::operation_t::file_read);
      const Sha256 digest = sha256(readable(bytes.data(), bytes.size()));
      std::memcpy(hash.data(), digest.data.data(), Sha256::kSize);
    }
    complete([handler, piece, hash, error] { handler(piece, hash, error); });
  });
}

void BundleDisk::async_clear_piece(lt::storage_index_t index, lt::piece_index_t piece,
                                   std::function<void(lt::piece_index_t)> handler) {
  forget(*store(index), static_cast<int>(piece));
  complete([handler = std::move(handler), piece] { handler(piece); });
}

void BundleDisk::async_check_files(lt::storage_index_t, const lt::add_torrent_params*,
                                   lt::aux::vector<std::string, lt::file_index_t>,
                                   std::function<void(lt::status_t, const lt::storage_error&)> handler) {
  complete([handler = std::move(handler)] { handler(lt::status_t::no_error, {}); });
}

void BundleDisk::async_release_files(lt::storage_index_t, std::function<void()> handler) {
  if (handler) complete(std::move(handler));
}

void BundleDisk::async_stop_torrent(lt::storage_index_t, std::function<void()> handler) {
  if (handler) complete(std::move(handler));
}

// The daemon owns bundle files: libtorrent neither moves, renames nor deletes them.

void BundleDisk::async_move_storage(
    lt::storage_index_t, std::string path, lt::move_flags_t,
    std::function<void(lt::status_t, const std::string&, const lt::storage_error&)> handler) {
  complete([handler = std::move(handler), path = std::move(path)] {
    handler(lt::status_t::fatal_disk_error, path, not_supported());
  });
}

void BundleDisk::async_rename_file(
    lt::storage_index_t, lt::file_index_t file, std::string name,
    std::function<void(const std::string&, lt::file_index_t, const lt::storage_error&)> handler) {
  complete(
      [handler = std::move(handler), file, name = std::move(name)] { handler(name, file, not_supported()); });
}

void BundleDisk::async_delete_files(lt::storage_index_t, lt::remove_flags_t,
                                    std::function<void(const lt::storage_error&)> handler) {
  complete([handler = std::move(handler)] { handler({}); });
}

void BundleDisk::async_set_file_priority(
    lt::storage_index_t, lt::aux::vector<lt::download_priority_t, lt::file_index_t> priorities,
    std::function<void(const lt::storage_error&, lt::aux::vector<lt::download_priority_t, lt::file_index_t>)>
        handler) {
  complete([handler = std::move(handler), priorities = std::move(priorities)] {
    handler(not_supported(), priorities);
  });
}

}  // namespace p2pw
