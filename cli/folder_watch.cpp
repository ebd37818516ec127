#include "cli/folder_watch.h"

#include <algorithm>
#include <tuple>

namespace p2pw {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_temporary(const std::string& name) {
  return name.starts_with('.') || name.starts_with("tmp") || name.ends_with(".tmp");
}

// Empty when the folder cannot be read, or holds nothing.
std::string content_of(const fs::path& folder) {
  std::vector<std::string> lines;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    std::string line = it->path().string();
    if (it->is_regular_file(ignored)) {
      line += " " + std::to_string(it->file_size(ignored)) + " " + std::to_string(it->last_write_time(ignored).time_since_epoch().count());
    }
    lines.push_back(line);
  }
  if (error) return {};
  std::sort(lines.begin(), lines.end());
  std::string content;
  for (const std::string& line : lines) content += line + "\n";
  return content;
}

}  // namespace

std::optional<std::int64_t> number_in_name(const std::string& name) {
  std::size_t end = name.size();
  while (end > 0 && !is_digit(name[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  if (begin == end || end - begin > 18) return std::nullopt;
  return std::stoll(name.substr(begin, end - begin));
}

bool FolderWatch::finished(const fs::path& folder, Clock::time_point now) {
  std::string content = content_of(folder);
  if (content.empty()) return false;
  Seen& seen = seen_[folder.filename().string()];
  if (seen.content != content) seen = {content, now};
  std::error_code ignored;
  bool settled = options_.marker.empty() ? first_ || now - seen.since >= options_.settle
                                         : fs::exists(folder / options_.marker, ignored);
  return settled && options_.readable(folder);
}

std::vector<fs::path> FolderWatch::look(Clock::time_point now) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(options_.root, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code ignored;
    if (is_temporary(name) || given_.contains(name) || !it->is_directory(ignored)) continue;
    if (!finished(it->path(), now)) continue;
    // What is there from before counts as old, unless it is asked for; a folder that is being written does not read yet.
    if (first_ && !options_.existing) {
      given_.insert(name);
      continue;
    }
    if (first_ && now - seen_[name].since < options_.settle && options_.marker.empty()) continue;
    found.push_back(it->path());
    given_.insert(name);
  }
  first_ = false;
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    auto key = [](const fs::path& p) {
      std::string name = p.filename().string();
      return std::tuple(number_in_name(name).value_or(-1), name);
    };
    return key(a) < key(b);
  });
  return found;
}

}  // namespace p2pw
