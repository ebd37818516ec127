// Shared storage behind HTTP, by libcurl: a web server that is only read, or an S3-compatible store, whose requests curl
// signs (AWS Signature Version 4).
#include <curl/curl.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "daemon/client/version.h"
#include "daemon/mirror/mirror_store.h"
#include "protocol/hash.h"

namespace p2pw {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kStallSeconds = 30;        // without a byte
constexpr std::size_t kErrorText = 2048;  // of an error's body, for people

struct CurlCleanup {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Handle = std::unique_ptr<CURL, CurlCleanup>;

class Headers {
 public:
  void add(const std::string& line) { list_.reset(curl_slist_append(list_.release(), line.c_str())); }
  curl_slist* list() const { return list_.get(); }

 private:
  std::unique_ptr<curl_slist, CurlCleanup> list_;
};

struct Request {
  const char* method = "GET";
  std::string name;
  std::string range;                 // "first-last"
  const MirrorBody* body = nullptr;  // of a PUT
  std::uint64_t most = 0;            // bytes of the answer
};

struct Answer {
  long status = 0;
  std::int64_t length = -1;  // as announced
  Bytes body;
  std::string error_text;  // the body of an answer that is an error
};

// What curl calls back with, for one request.
struct Transfer {
  const Request* request;
  const std::atomic<bool>* stopped;
  CURL* curl;
  Answer answer;
  std::uint64_t sent = 0;
  Status failed;

  static std::size_t take(char* data, std::size_t, std::size_t bytes, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    long status = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    Answer& answer = transfer.answer;
    if (status >= 300) {
      answer.error_text.append(data, std::min(bytes, kErrorText - std::min(kErrorText, answer.error_text.size())));
      return bytes;
    }
    if (bytes > transfer.request->most - answer.body.size()) {
      transfer.failed =
          fail(ErrorCode::limit, "sends more than the " + std::to_string(transfer.request->most) + " bytes asked for");
      return 0;
    }
    ByteView part = as_bytes(std::string_view(data, bytes));
    answer.body.insert(answer.body.end(), part.begin(), part.end());
    return bytes;
  }

  static std::size_t give(char* data, std::size_t, std::size_t bytes, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const MirrorBody& body = *transfer.request->body;
    bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, body.bytes - transfer.sent));
    if (bytes == 0) return 0;
    transfer.failed = body.read(transfer.sent, std::as_writable_bytes(std::span(data, bytes)));
    if (!transfer.failed) return CURL_READFUNC_ABORT;
    transfer.sent += bytes;
    return bytes;
  }

  // curl begins anew on a connection that turned out to be closed.
  static int rewind(void* self, curl_off_t offset, int origin) {
    if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
    static_cast<Transfer*>(self)->sent = static_cast<std::uint64_t>(offset);
    return CURL_SEEKFUNC_OK;
  }

  static int progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return *static_cast<Transfer*>(self)->stopped ? 1 : 0;
  }
};

// <Code> and <Message> of S3's error document, printable.
std::string reason_in(const std::string& text) {
  auto between = [&text](const std::string& tag) -> std::string {
    const auto begin = text.find("<" + tag + ">"), end = text.find("</" + tag + ">");
    if (begin == text.npos || end == text.npos || end < begin) return "";
    std::string found = text.substr(begin + tag.size() + 2, std::min<std::size_t>(end - begin - tag.size() - 2, 200));
    std::erase_if(found, [](char c) { return c < 0x20 || c > 0x7e; });
    return found;
  };
  const std::string code = between("Code"), message = between("Message");
  if (code.empty()) return "";
  return " (" + code + (message.empty() ? "" : ": " + message) + ")";
}

ErrorCode code_of_status(long status) {
  switch (status) {
    case 401:
    case 403:
      return ErrorCode::untrusted;
    case 404:
    case 410:
      return ErrorCode::not_found;
    case 416:
      return ErrorCode::incomplete;
    case 408:
    case 504:
      return ErrorCode::timed_out;
    case 429:
    case 500:
    case 502:
    case 503:
      return ErrorCode::busy;
    case 405:
    case 501:
      return ErrorCode::unsupported;
    case 507:
      return ErrorCode::no_space;
    default:
      return ErrorCode::failed;
  }
}

ErrorCode code_of_curl(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return ErrorCode::unreachable;
    case CURLE_OPERATION_TIMEDOUT:
      return ErrorCode::timed_out;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
      return ErrorCode::untrusted;
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
      return ErrorCode::incomplete;
    case CURLE_ABORTED_BY_CALLBACK:
      return ErrorCode::interrupted;
    default:
      return ErrorCode::failed;
  }
}

class HttpStore : public MirrorStore {
 public:
  HttpStore(const MirrorUrl& url, CredentialsSource credentials) : url_(url), source_(std::move(credentials)) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    (void)ready;
  }

  Status put(const std::string& name, const MirrorBody& body) override {
    if (url_.kind != MirrorUrl::Kind::s3) {
      return fail(ErrorCode::unsupported, url_.text + ": a web server is only read, not written to");
    }
    auto answer = run({.method = "PUT", .name = name, .range = {}, .body = &body, .most = kErrorText});
    if (answer) return {};
    // There is no bucket: another thing than an object that is not there.
    if (answer.error().code == ErrorCode::not_found) return fail(ErrorCode::failed, answer.error().message);
    return answer.error();
  }

  Result<Bytes> get(const std::string& name, std::uint64_t most) override {
    P2PW_TRY(Answer answer, run({.method = "GET", .name = name, .range = {}, .body = nullptr, .most = most}));
    return std::move(answer.body);
  }

  Result<Bytes> get_range(const std::string& name, std::uint64_t offset, std::uint64_t length) override {
    if (length == 0) return Bytes();
    const std::string range = std::to_string(offset) + "-" + std::to_string(offset + length - 1);
    P2PW_TRY(Answer answer, run({.method = "GET", .name = name, .range = range, .body = nullptr, .most = length}));
    // Without ranges a server sends the whole object, which is right only when that was asked for.
    if (answer.status != 206 && offset != 0) {
      return fail(ErrorCode::unsupported, place(name) + ": this server does not answer requests for a range of bytes");
    }
    if (answer.body.size() != length) {
      return fail(ErrorCode::incomplete, place(name) + ": " + std::to_string(answer.body.size()) +
                                             " bytes came in place of " + std::to_string(length));
    }
    return std::move(answer.body);
  }

  Result<std::uint64_t> size(const std::string& name) override {
    P2PW_TRY(Answer answer, run({.method = "HEAD", .name = name, .range = {}, .body = nullptr, .most = 0}));
    if (answer.length < 0) return fail(ErrorCode::malformed, place(name) + ": the server does not say how large it is");
    return static_cast<std::uint64_t>(answer.length);
  }

  Status remove(const std::string& name) override {
    if (!url_.writable()) return fail(ErrorCode::unsupported, url_.text + ": a web server is only read, not written to");
    auto answer = run({.method = "DELETE", .name = name, .range = {}, .body = nullptr, .most = kErrorText});
    if (answer || answer.error().code == ErrorCode::not_found) return {};
    return answer.error();
  }

  void stop() override { stopped_ = true; }

 private:
  std::string place(const std::string& name) const { return url_.base + "/" + name; }

  // A connection that is warm, or a new one.
  Handle take_handle() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) return Handle(curl_easy_init());
    Handle handle = std::move(idle_.back());
    idle_.pop_back();
    return handle;
  }
  void give_back(Handle handle) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(handle));
  }

  // Those read last, unless they were refused since.
  Result<MirrorCredentials> credentials() {
    std::lock_guard lock(mutex_);
    if (!credentials_) {
      auto found = source_();
      if (!found && found.error().code != ErrorCode::not_found) return found.error();
      credentials_ = found ? *found : MirrorCredentials();
    }
    return *credentials_;
  }

  Status sign(CURL* curl, const Request& request, Headers& headers) {
    if (url_.kind != MirrorUrl::Kind::s3) return {};
    P2PW_TRY(MirrorCredentials mine, credentials());
    if (mine.id.empty()) return {};
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, ("aws:amz:" + url_.region + ":s3").c_str());
    curl_easy_setopt(curl, CURLOPT_USERNAME, mine.id.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, mine.secret.c_str());
    headers.add("x-amz-content-sha256: " + (request.body ? request.body->hash : sha256({})).hex());
    if (!mine.session.empty()) headers.add("x-amz-security-token: " + mine.session);
    return {};
  }

  static void prepare(CURL* curl, const Request& request, const Headers& headers, Transfer& transfer) {
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_USERAGENT, (std::string("p2pwd/") + kSoftwareVersion).c_str());
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.list());
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Transfer::take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Transfer::progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    if (!request.range.empty()) curl_easy_setopt(curl, CURLOPT_RANGE, request.range.c_str());
    const std::string_view method = request.method;
    if (method == "HEAD") curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (method == "DELETE") curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE");
    if (method == "PUT") {
      curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
      curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body->bytes));
      curl_easy_setopt(curl, CURLOPT_READFUNCTION, &Transfer::give);
      curl_easy_setopt(curl, CURLOPT_READDATA, &transfer);
      curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, &Transfer::rewind);
      curl_easy_setopt(curl, CURLOPT_SEEKDATA, &transfer);
    }
  }

  Result<Answer> run(const Request& request) {
    const std::string what = request.method + (" " + place(request.name));
    if (stopped_) return fail(ErrorCode::interrupted, what + ": the daemon stops");
    Handle handle = take_handle();
    if (!handle) return fail(ErrorCode::failed, what + ": curl does not start");
    CURL* curl = handle.get();
    curl_easy_reset(curl);  // connections stay
    Transfer transfer{&request, &stopped_, curl, {}, 0, {}};
    Headers headers;
    char reason[CURL_ERROR_SIZE] = "";
    curl_easy_setopt(curl, CURLOPT_URL, place(request.name).c_str());
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    P2PW_CHECK(sign(curl, request, headers));
    prepare(curl, request, headers, transfer);
    const CURLcode code = curl_easy_perform(curl);
    Answer& answer = transfer.answer;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
    curl_off_t length = -1;
    if (curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length) == CURLE_OK) answer.length = length;
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
    if (!transfer.failed) return fail(transfer.failed.error().code, what + ": " + transfer.failed.error().message);
    // A store that refuses an upload may hang up before it has read all of it; its answer counts.
    if (code != CURLE_OK && answer.status < 300) {
      return fail(code_of_curl(code), what + ": " + (*reason ? reason : curl_easy_strerror(code)));
    }
    give_back(std::move(handle));
    if (answer.status >= 200 && answer.status < 300) return std::move(answer);
    const ErrorCode error = code_of_status(answer.status);
    if (error == ErrorCode::untrusted) forget_credentials();
    return fail(error, what + ": the server answers " + std::to_string(answer.status) + reason_in(answer.error_text));
  }

  void forget_credentials() {
    std::lock_guard lock(mutex_);
    credentials_.reset();
  }

  const MirrorUrl url_;
  const CredentialsSource source_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;  // the rest
  std::vector<Handle> idle_;
  std::optional<MirrorCredentials> credentials_;
};

}  // namespace

std::unique_ptr<MirrorStore> open_http_store(const MirrorUrl& url, CredentialsSource credentials) {
  return std::make_unique<HttpStore>(url, std::move(credentials));
}

}  // namespace p2pw
