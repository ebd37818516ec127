// Small files of the state folder, read whole and written so that a crash leaves the old or the new one, never half.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "protocol/result.h"

namespace p2pw {

// Errors: not_found, io, limit (larger than `max_bytes`).
Result<std::string> read_small_file(const std::filesystem::path& path, std::size_t max_bytes);

// The same for a file that holds a secret: refused when group or others may read it (untrusted, with the chmod to type).
Result<std::string> read_secret_file(const std::filesystem::path& path, std::size_t max_bytes);

// What the service manager hands over under this name (systemd's LoadCredential; its folder is private to the service), if
// there is such a thing, else the file, read by read_secret_file().
Result<std::string> read_credential(const std::string& name, const std::filesystem::path& file, std::size_t max_bytes);

// Temporary file beside it, written, synced, renamed, folder synced. Missing parent folders are made with `folder_mode`.
// Errors: io, no_space; nothing is left behind.
Status write_small_file(const std::filesystem::path& path, std::string_view content, mode_t mode,
                        mode_t folder_mode = 0750);

}  // namespace p2pw
