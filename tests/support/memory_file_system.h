// A FileSystem in memory that can be killed, lose power, run full, write short and fail calls. Keeps apart what a process
// sees and what is on stable storage: data becomes stable page by page with FileHandle::sync(), names with
// sync_directory(). lose_power() keeps a random part of what was not synced, as a disk does.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "chunker/file_system.h"

namespace p2pw::testing {

class MemoryFileSystem : public FileSystem {
 public:
  explicit MemoryFileSystem(std::uint64_t seed = 1) : random_(seed) {}

  // From operation `n` on (0 = the next), every call fails: the process is dead. Then take revive() or lose_power().
  void die_at(std::uint64_t n);
  bool dead() const { return dead_; }
  std::uint64_t operations() const { return operations_; }  // so far

  void revive();      // kill -9: everything written is there
  void lose_power();  // a random part of what was not synced is gone

  void drop_unsynced_data();  // while the process lives: file data goes back to what was synced

  // What fails, and with what; asked before every call that changes or syncs something ("write", "sync", "rename", ...).
  std::function<std::optional<Error>(const std::string& operation, const std::filesystem::path& path)> fault;
  bool short_writes = false;
  bool mapped = false;                     // files can be mapped, as on tmpfs
  std::optional<std::uint64_t> capacity;   // of all files together
  // Called for reads and writes of file data: path and bytes.
  std::function<void(bool write, const std::filesystem::path& path, std::size_t bytes)> watch;

  // Helpers for tests: what a process would see.
  std::optional<Bytes> contents(const std::filesystem::path& path) const;
  void flip_byte(const std::filesystem::path& path, std::size_t offset);
  void erase(const std::filesystem::path& path);
  bool exists(const std::filesystem::path& path) const;
  std::vector<std::string> files_under(const std::filesystem::path& directory) const;  // relative, sorted

  Result<std::unique_ptr<FileHandle>> open(const std::filesystem::path& path, OpenMode mode) override;
  Status make_directories(const std::filesystem::path& path) override;
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  Status remove(const std::filesystem::path& path) override;
  Status symlink(const std::string& target, const std::filesystem::path& path) override;
  Result<std::string> read_link(const std::filesystem::path& path) override;
  Result<std::vector<DirectoryEntry>> list(const std::filesystem::path& directory) override;
  Status sync_directory(const std::filesystem::path& directory) override;

 private:
  friend class MemoryFile;
  struct Inode {
    Bytes data, stable;
    std::set<std::size_t> dirty;  // pages
  };
  struct Node {
    enum class Type { file, directory, link } type = Type::directory;
    std::shared_ptr<Inode> inode;
    std::string target;
  };
  using Names = std::map<std::string, Node>;
  struct Change {
    std::vector<std::pair<std::string, std::optional<Node>>> names;  // set or erased, at once
  };

  std::optional<Error> step(const std::string& operation, const std::filesystem::path& path);  // under the lock
  void change(const std::filesystem::path& directory, Change change);
  static void apply(Names& names, const Change& change);
  std::uint64_t used() const;
  Status make_room(std::uint64_t more, const std::filesystem::path& path) const;

  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::uint64_t operations_ = 0;
  std::optional<std::uint64_t> dies_at_;
  bool dead_ = false;
  std::uint64_t life_ = 0;  // handles of earlier lives are dead
  Names now_, stable_;
  std::map<std::string, std::vector<Change>> unsynced_;  // by directory
};

}  // namespace p2pw::testing
