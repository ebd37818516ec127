// Makes a Layout from a file table and the headers of its tensor files, given one by one in file order, so that no more
// than one header is in memory. Used by Layout::scan and Layout::from_parts.
#pragma once

#include "chunker/layout.h"
#include "protocol/hash.h"

namespace p2pw {

class LayoutBuilder {
 public:
  // `code` is what errors about contents get: bad_input for a user's directory, malformed for bytes from outside.
  // `where` stands before file names in messages: the directory with its '/', or nothing.
  LayoutBuilder(FileTable table, ErrorCode code, std::string where);

  // The tensor file whose header comes next; null when all have been given.
  const FileEntry* next() const;
  const std::vector<FileEntry>& files() const { return layout_.files(); }
  Status add_header(ByteView header);
  // The same for a header that was parsed elsewhere (several at once, on several threads).
  Status add_parsed(ByteView header, std::vector<TensorEntry> tensors);
  Result<std::vector<TensorEntry>> parse(const FileEntry& file, ByteView header) const;
  // REQUIRES: next() is null.
  Result<Layout> finish();

 private:
  Status cut(const FileEntry& file);
  void skip_side_files();

  Layout layout_;
  ErrorCode code_;
  std::string where_;
  Sha256Stream hash_;
  std::size_t next_ = 0;
  std::size_t tensors_ = 0;
};

}  // namespace p2pw
