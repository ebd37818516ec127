// Layout::scan: a user's directory, walked and checked.
#include <filesystem>

#include "chunker/file_io.h"
#include "chunker/layout_builder.h"
#include "chunker/parallel.h"
#include "chunker/shard_index.h"
#include "chunker/text.h"
#include "protocol/limits.h"

namespace p2pw {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 32;
constexpr std::uint64_t kMaxIndexBytes = 512u << 20;

std::string_view kind_name(fs::file_type type) {
  switch (type) {
    case fs::file_type::directory: return "a folder";
    case fs::file_type::fifo: return "a pipe";
    case fs::file_type::socket: return "a socket";
    case fs::file_type::block:
    case fs::file_type::character: return "a device";
    default: return "not a regular file";
  }
}

// Lists the files of one directory tree.
class Walk {
 public:
  explicit Walk(const fs::path& root) : root_(root) {}

  Status run() {
    std::error_code ec;
    real_root_ = fs::canonical(root_, ec);
    if (ec) return os_failure(ec, root_);
    if (!fs::is_directory(real_root_, ec)) {
      return fail(ErrorCode::bad_input, root_.string() + ": not a folder; name the checkpoint's directory");
    }
    return folder("", 0);
  }
  std::vector<FileEntry> take() { return std::move(files_); }

 private:
  static Status os_failure(std::error_code ec, const fs::path& path) {
    ErrorCode code = ec == std::errc::no_such_file_or_directory ? ErrorCode::not_found : ErrorCode::io;
    return fail(code, path.string() + ": " + ec.message());
  }
  Status refuse(const std::string& relative, std::string_view why) const {
    return fail(ErrorCode::bad_input, root_.string() + "/" + printable(relative) + ": " + std::string(why));
  }

  Status folder(const std::string& relative, int depth) {
    if (depth > kMaxDepth) return refuse(relative, "more than 32 folders deep");
    std::error_code ec;
    fs::directory_iterator it(root_ / relative, ec), end;
    for (; !ec && it != end; it.increment(ec)) {
      std::string name = (relative.empty() ? "" : relative + "/") + it->path().filename().string();
      if (std::string why = why_bad_path(name); !why.empty()) return refuse(name, "its name " + why);
      P2PW_CHECK(entry(*it, name, depth));
      if (files_.size() > limits::kMaxFiles) {
        return fail(ErrorCode::bad_input, root_.string() + ": more than 100000 files; is this a checkpoint?");
      }
    }
    if (ec) return os_failure(ec, root_ / relative);
    return {};
  }

  Status entry(const fs::directory_entry& found, const std::string& name, int depth) {
    std::error_code ec;
    fs::file_type type = found.symlink_status(ec).type();
    if (ec) return os_failure(ec, found.path());
    if (type == fs::file_type::symlink) return link(found.path(), name);
    if (type == fs::file_type::directory) {
      if (is_safetensors_name(name)) return refuse(name, "a folder in the place of a shard");
      return folder(name, depth + 1);
    }
    if (type != fs::file_type::regular) return refuse(name, std::string(kind_name(type)) + ", not a regular file");
    return file(name);
  }

  // A link to a file inside the checkpoint is read as that file.
  Status link(const fs::path& path, const std::string& name) {
    std::error_code ec;
    fs::path target = fs::canonical(path, ec);
    if (ec) return refuse(name, "a link that leads nowhere");
    auto outside = target.lexically_relative(real_root_);
    if (outside.empty() || *outside.begin() == "..") {
      return refuse(name, "a link that leaves the directory; copy the file in its place (cp -L)");
    }
    fs::file_type type = fs::status(target, ec).type();
    if (ec || type != fs::file_type::regular) return refuse(name, "a link to " + std::string(kind_name(type)));
    return file(name);
  }

  Status file(const std::string& name) {
    FileEntry entry;
    entry.path = name;
    P2PW_TRY(File file, File::open(root_ / name));
    P2PW_TRY(entry.size, file.size());
    if (is_safetensors_name(name)) {
      std::array<std::byte, kSafetensorsPrefix> prefix{};
      std::string shown = root_.string() + "/" + printable(name);
      if (entry.size >= prefix.size()) P2PW_CHECK(file.read(0, prefix));
      P2PW_TRY(entry.header_bytes, safetensors_header_bytes(prefix, entry.size, shown, ErrorCode::bad_input));
      if (entry.header_bytes == kSafetensorsPrefix) return refuse(name, "the header is empty");
    }
    files_.push_back(std::move(entry));
    return {};
  }

  fs::path root_, real_root_;
  std::vector<FileEntry> files_;
};

struct Header {
  Bytes bytes;
  std::vector<TensorEntry> tensors;
};

// Headers are parsed a few at a time, so that memory does not grow with their number.
Status read_headers(LayoutBuilder& builder, const fs::path& directory, const std::vector<FileEntry>& files) {
  std::vector<const FileEntry*> shards;
  for (const FileEntry& file : files) {
    if (file.is_tensor_file()) shards.push_back(&file);
  }
  std::size_t batch = 2 * default_threads();
  for (std::size_t begin = 0; begin < shards.size(); begin += batch) {
    std::vector<Header> headers(std::min(batch, shards.size() - begin));
    Status parsed = parallel_for(default_threads(), headers.size(), [&](unsigned, std::size_t i) -> Status {
      const FileEntry& shard = *shards[begin + i];
      P2PW_TRY(File file, File::open(directory / shard.path));
      headers[i].bytes.resize(shard.header_bytes);
      P2PW_CHECK(file.read(0, headers[i].bytes));
      P2PW_TRY(headers[i].tensors, builder.parse(shard, headers[i].bytes));
      return {};
    });
    if (!parsed) return parsed;
    for (Header& header : headers) P2PW_CHECK(builder.add_parsed(header.bytes, std::move(header.tensors)));
  }
  return {};
}

Status check_indices(const Layout& layout, const fs::path& directory, const std::string& where) {
  for (const FileEntry& file : layout.files()) {
    if (!is_shard_index_name(file.path)) continue;
    P2PW_TRY(Bytes index, read_file(directory / file.path, kMaxIndexBytes));
    P2PW_CHECK(check_shard_index(layout, file.path, index, where));
  }
  return {};
}

}  // namespace

Result<Layout> Layout::scan(const fs::path& directory) {
  std::string where = directory.string() + "/";
  Walk walk(directory);
  P2PW_CHECK(walk.run());
  auto table = FileTable::make(walk.take(), ErrorCode::bad_input);
  if (!table) return fail(table.error().code, directory.string() + ": " + table.error().message);

  LayoutBuilder builder(std::move(table).value(), ErrorCode::bad_input, where);
  if (builder.next() == nullptr) {
    return fail(ErrorCode::bad_input, directory.string() + ": no .safetensors file in it; is this a checkpoint?");
  }
  P2PW_CHECK(read_headers(builder, directory, builder.files()));
  P2PW_TRY(Layout layout, builder.finish());
  P2PW_CHECK(check_indices(layout, directory, where));
  return layout;
}

}  // namespace p2pw
