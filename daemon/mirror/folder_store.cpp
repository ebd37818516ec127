// Shared storage in a folder: an object is a file, put by writing beside it, syncing and renaming.
#include <atomic>
#include <mutex>
#include <set>

#include "chunker/file_io.h"
#include "daemon/mirror/mirror_store.h"
#include "protocol/hash.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPart = 1u << 20;
constexpr std::chrono::hours kLeftOver{1};  // a temporary file of that age belongs to nobody who still writes it

class FolderStore : public MirrorStore {
 public:
  explicit FolderStore(fs::path folder) : folder_(std::move(folder)) {}

  Status put(const std::string& name, const MirrorBody& body) override {
    P2PW_CHECK(going_on());
    const fs::path target = folder_ / name;
    P2PW_CHECK(make_folders(target.parent_path()));
    P2PW_TRY(TemporaryPath temporary, TemporaryPath::beside(target));
    P2PW_TRY(File file, File::create(temporary.path()));
    P2PW_CHECK(copy(body, file));
    P2PW_CHECK(file.sync());
    return temporary.rename_to(target);
  }

  Result<Bytes> get(const std::string& name, std::uint64_t most) override {
    P2PW_CHECK(going_on());
    P2PW_TRY(File file, open(name));
    P2PW_TRY(std::uint64_t bytes, file.size());
    if (bytes > most) {
      return fail(ErrorCode::limit, file.path().string() + ": has " + std::to_string(bytes) + " bytes; at most " +
                                        std::to_string(most) + " are taken");
    }
    return read(file, 0, bytes);
  }

  Result<Bytes> get_range(const std::string& name, std::uint64_t offset, std::uint64_t length) override {
    P2PW_CHECK(going_on());
    P2PW_TRY(File file, open(name));
    P2PW_TRY(std::uint64_t bytes, file.size());
    if (offset > bytes || length > bytes - offset) {
      return fail(ErrorCode::incomplete, file.path().string() + ": ends at " + std::to_string(bytes) + " bytes, before " +
                                             std::to_string(offset + length));
    }
    return read(file, offset, length);
  }

  Result<std::uint64_t> size(const std::string& name) override {
    P2PW_CHECK(going_on());
    P2PW_TRY(File file, open(name));
    return file.size();
  }

  Status remove(const std::string& name) override {
    P2PW_CHECK(going_on());
    std::error_code error;
    fs::remove(folder_ / name, error);
    if (error && error != std::errc::no_such_file_or_directory) {
      return fail(ErrorCode::io, (folder_ / name).string() + ": cannot be removed: " + error.message());
    }
    return {};
  }

  void stop() override { stopped_ = true; }

 private:
  Status going_on() const {
    if (stopped_) return fail(ErrorCode::interrupted, folder_.string() + ": the daemon stops");
    return {};
  }

  // The folder itself must be there: an empty mount point is not to be filled.
  Status make_folders(const fs::path& parent) {
    std::error_code error;
    if (!fs::is_directory(folder_, error)) {
      return fail(ErrorCode::unreachable,
                  folder_.string() + ": is no folder" + (error ? ": " + error.message() : "") + "; make it, or mount it");
    }
    fs::create_directories(parent, error);
    if (error) return fail(ErrorCode::io, parent.string() + ": cannot be made: " + error.message());
    std::lock_guard lock(mutex_);
    if (tidied_.insert(parent).second) remove_leftovers(parent);
    return {};
  }

  static void remove_leftovers(const fs::path& folder) {
    std::error_code ignored;
    std::vector<fs::path> old;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename().string();
      const auto written = entry.last_write_time(ignored);
      const bool stale = fs::file_time_type::clock::now() - written > kLeftOver;
      if (name.starts_with('.') && name.find(".p2pw-") != name.npos && stale) old.push_back(entry.path());
    }
    for (const fs::path& path : old) fs::remove(path, ignored);
  }

  Result<File> open(const std::string& name) const {
    std::error_code error;
    const fs::path path = folder_ / name;
    if (!fs::exists(path, error) && !fs::is_directory(folder_, error)) {
      return fail(ErrorCode::unreachable, folder_.string() + ": is no folder; make it, or mount it");
    }
    return File::open(path);
  }

  Status copy(const MirrorBody& body, const File& file) const {
    Bytes buffer(std::min<std::uint64_t>(body.bytes, kPart));
    for (std::uint64_t at = 0; at < body.bytes; at += buffer.size()) {
      P2PW_CHECK(going_on());
      buffer.resize(std::min<std::uint64_t>(kPart, body.bytes - at));
      P2PW_CHECK(body.read(at, buffer));
      P2PW_CHECK(file.write(at, buffer));
    }
    return {};
  }

  static Result<Bytes> read(const File& file, std::uint64_t offset, std::uint64_t length) {
    Bytes bytes(length);
    P2PW_CHECK(file.read(offset, bytes));
    return bytes;
  }

  const fs::path folder_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;
  std::set<fs::path> tidied_;
};

}  // namespace

MirrorBody body_of(ByteView bytes) {
  auto read = [bytes](std::uint64_t offset, std::span<std::byte> out) -> Status {
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  };
  return {bytes.size(), read, sha256(bytes)};
}

std::unique_ptr<MirrorStore> open_folder_store(fs::path folder) { return std::make_unique<FolderStore>(std::move(folder)); }

std::unique_ptr<MirrorStore> open_mirror_store(const MirrorUrl& url, CredentialsSource credentials) {
  if (url.kind == MirrorUrl::Kind::folder) return open_folder_store(url.folder);
  return open_http_store(url, std::move(credentials));
}

}  // namespace p2pw
