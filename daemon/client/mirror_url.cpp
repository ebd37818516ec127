#include "daemon/client/mirror_url.h"

#include <algorithm>

namespace p2pw {
namespace {

// Characters that stand for themselves in a URL and in the form that S3 signs: nothing has to be escaped anywhere.
bool plain(const std::string& text, std::string_view also) {
  return std::all_of(text.begin(), text.end(), [also](char c) {
    bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return word || c == '-' || c == '.' || c == '_' || c == '~' || also.find(c) != also.npos;
  });
}

std::string without_slashes_at_end(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

Error wrong(const std::string& why) { return fail(ErrorCode::config, "mirror: " + why); }

// Checks scheme://host[:port][/path].
Result<std::string> web_address(const std::string& text) {
  std::size_t scheme = text.starts_with("https://") ? 8 : text.starts_with("http://") ? 7 : 0;
  if (scheme == 0) return wrong("\"" + text + "\" must begin with http:// or https://");
  const std::string rest = text.substr(scheme);
  if (rest.find('@') != rest.npos)
    return wrong("a URL must not hold a name or password: they belong into mirror_credentials");
  const std::string host = rest.substr(0, rest.find('/'));
  const std::string path = rest.substr(host.size());
  if (host.empty() || !plain(host, ":[]")) return wrong("\"" + text + "\" names no host");
  if (!plain(path, "/") || path.find("..") != path.npos) {
    return wrong("\"" + text + "\" has a path with other characters than letters, digits and / - . _ ~");
  }
  return without_slashes_at_end(text);
}

Result<MirrorUrl> parse_s3(const std::string& text) {
  MirrorUrl url{MirrorUrl::Kind::s3, text, {}, {}, "us-east-1"};
  const std::size_t question = text.find('?');
  const std::string path = without_slashes_at_end(text.substr(5, question == text.npos ? text.npos : question - 5));
  const std::string bucket = path.substr(0, path.find('/'));
  if (bucket.size() < 3 || bucket.size() > 63 || !plain(path, "/") || path.find("..") != path.npos) {
    return wrong("\"" + text + "\" must be s3://BUCKET/PREFIX?region=R&endpoint=URL");
  }
  std::string endpoint;
  std::string query = question == text.npos ? "" : text.substr(question + 1);
  while (!query.empty()) {
    const std::string item = query.substr(0, query.find('&'));
    query.erase(0, item.size() + 1);
    const std::string key = item.substr(0, item.find('='));
    const std::string value = item.size() > key.size() ? item.substr(key.size() + 1) : "";
    if (key == "region" && !value.empty() && plain(value, "")) {
      url.region = value;
    } else if (key == "endpoint") {
      P2PW_TRY(endpoint, web_address(value));
    } else {
      return wrong("\"" + item + "\" is not known in an s3 URL: region=R and endpoint=URL are");
    }
  }
  if (endpoint.empty()) endpoint = "https://s3." + url.region + ".amazonaws.com";
  url.base = endpoint + "/" + path;
  return url;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == text.npos ? "" : text.substr(first, last - first + 1);
}

}  // namespace

Result<MirrorUrl> parse_mirror_url(const std::string& text) {
  if (text.starts_with("s3://")) return parse_s3(text);
  if (text.starts_with("file://")) {
    std::filesystem::path folder = text.substr(7);
    if (!folder.is_absolute()) return wrong("\"" + text + "\" must be file:// and an absolute path");
    return MirrorUrl{MirrorUrl::Kind::folder, text, folder, {}, {}};
  }
  if (text.starts_with("http://") || text.starts_with("https://")) {
    P2PW_TRY(std::string base, web_address(text));
    return MirrorUrl{MirrorUrl::Kind::http, text, {}, base, {}};
  }
  return wrong("\"" + text + "\" must begin with file://, http://, https:// or s3://");
}

Result<MirrorCredentials> parse_mirror_credentials(const std::string& text) {
  MirrorCredentials found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    const std::string key = trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
    if (key == "aws_access_key_id") found.id = value;
    if (key == "aws_secret_access_key") found.secret = value;
    if (key == "aws_session_token") found.session = value;
  }
  const bool printable = plain(found.id, "/+=") && plain(found.secret, "/+=") && plain(found.session, "/+=");
  if (found.id.empty() || found.secret.empty() || !printable) {
    return fail(ErrorCode::config,
                "must have the lines aws_access_key_id = ... and aws_secret_access_key = ..., as in ~/.aws/credentials");
  }
  return found;
}

}  // namespace p2pw
