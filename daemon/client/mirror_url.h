// Where shared storage lies, as `mirror` in the configuration names it:
//
//   file:///srv/p2pw                                     a folder, local or mounted
//   https://host[:port]/path                             any web server that serves such a folder; only read
//   s3://bucket[/prefix]?region=R&endpoint=http://host[:port]   an S3-compatible store, addressed by path;
//                                                        without endpoint Amazon's of that region (default us-east-1)
//
// No name or password may stand in it: credentials come from a file of their own (mirror_credentials).
#pragma once

#include <filesystem>
#include <string>

#include "protocol/result.h"

namespace p2pw {

struct MirrorUrl {
  enum class Kind { none, folder, http, s3 };
  Kind kind = Kind::none;
  std::string text;              // as configured
  std::filesystem::path folder;  // of a folder
  std::string base;              // of the others: what object names are appended to, without a slash at the end
  std::string region;            // S3: what requests are signed for

  explicit operator bool() const { return kind != Kind::none; }
  bool writable() const { return kind == Kind::folder || kind == Kind::s3; }
  bool operator==(const MirrorUrl&) const = default;
};

// Error: config, with what is wrong.
Result<MirrorUrl> parse_mirror_url(const std::string& text);

// Access to an S3 store, as in ~/.aws/credentials: lines of `name = value`, others are skipped.
struct MirrorCredentials {
  std::string id, secret, session;  // aws_access_key_id, aws_secret_access_key, aws_session_token
};
// Error: config.
Result<MirrorCredentials> parse_mirror_credentials(const std::string& text);

}  // namespace p2pw
