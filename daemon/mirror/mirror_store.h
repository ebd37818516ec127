// Shared storage as far as p2pw needs it: named objects that are put whole, read whole or in part, and removed. A folder, a
// web server (reading only) or an S3-compatible store.
//
// Names come from mirror_names.h only: letters, digits and / - . _. What is read is believed in nothing: callers say the
// most that they take, and check what they got.
//
// Threads: any number of calls at once, from any thread; each blocks until it is done. Never from the control thread.
// Errors: not_found (no such object), unreachable, timed_out, busy (told to come later), untrusted (credentials or rights
// refused), unsupported (only read here; no ranges), limit (larger than asked for), incomplete (cut short), io, no_space,
// interrupted (stop() was called), failed (the store answers with another error).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/client/mirror_url.h"
#include "protocol/ids.h"

namespace p2pw {

// What is to be put: `read` fills `out` from `offset` on and is called in rising order, from the start again for a retry.
struct MirrorBody {
  std::uint64_t bytes = 0;
  std::function<Status(std::uint64_t offset, std::span<std::byte> out)> read;
  Sha256 hash;  // of all of it: S3 wants it signed
};
// `bytes` must outlive the body.
MirrorBody body_of(ByteView bytes);

class MirrorStore {
 public:
  virtual ~MirrorStore() = default;
  // All of it or nothing, and on stable storage as far as the store promises that; replaces what was there.
  virtual Status put(const std::string& name, const MirrorBody& body) = 0;
  virtual Result<Bytes> get(const std::string& name, std::uint64_t most) = 0;
  // Exactly these bytes.
  virtual Result<Bytes> get_range(const std::string& name, std::uint64_t offset, std::uint64_t length) = 0;
  virtual Result<std::uint64_t> size(const std::string& name) = 0;
  // What is not there is fine.
  virtual Status remove(const std::string& name) = 0;
  // Calls that run, and all later ones, end with `interrupted` soon.
  virtual void stop() = 0;
};

std::unique_ptr<MirrorStore> open_folder_store(std::filesystem::path folder);
// `credentials`: read anew before use when they were refused; an S3 store is asked without a signature when there are none.
using CredentialsSource = std::function<Result<MirrorCredentials>()>;
std::unique_ptr<MirrorStore> open_http_store(const MirrorUrl& url, CredentialsSource credentials);
std::unique_ptr<MirrorStore> open_mirror_store(const MirrorUrl& url, CredentialsSource credentials);

}  // namespace p2pw
