#include "daemon/client/api.h"

#include <nlohmann/json.hpp>

namespace p2pw::api {
namespace {

// One list of keys for each struct; JsonWriter and JsonReader walk it.
template <class V> void fields(V& v, ChannelStatus& s) {
  v("channel", s.channel);
  v("publisher", s.publisher);
  v("version_sealed", s.version_sealed);
  v("version_staged", s.version_staged);
  v("version_active", s.version_active);
  v("state", s.state);
  v("current", s.current);
  v("head", s.head);
  v("step", s.step);
  v("publishing", s.publishing);
  v("bundle_store_bytes", s.bundle_store_bytes);
  v("problem", s.problem);
  v("hook", s.hook);
  v("engine", s.engine);
  v("engine_says", s.engine_says);
  v("pause_ms", s.pause_ms);
  v("load_ms", s.load_ms);
  v("active_digest", s.active_digest);
}
template <class V> void fields(V& v, NodeStatus& s) {
  v("node", s.node);
  v("name", s.name);
  v("channel", s.channel);
  v("region", s.region);
  v("version_staged", s.version_staged);
  v("version_active", s.version_active);
  v("state", s.state);
  v("lag_versions", s.lag_versions);
  v("lag_seconds", s.lag_seconds);
  v("percent", s.percent);
  v("why", s.why);
}
template <class V> void fields(V& v, Staleness& s) {
  v("channel", s.channel);
  v("nodes", s.nodes);
  v("current", s.current);
  v("behind_1", s.behind_1);
  v("behind_2", s.behind_2);
  v("behind_more", s.behind_more);
  v("unknown", s.unknown);
  v("seconds_median", s.seconds_median);
  v("seconds_p95", s.seconds_p95);
  v("seconds_max", s.seconds_max);
}
template <class V> void fields(V& v, LinkStatus& s) {
  v("node", s.node);
  v("name", s.name);
  v("region", s.region);
  v("address", s.address);
  v("round_trip_ms", s.round_trip_ms);
  v("clock_offset_ms", s.clock_offset_ms);
  v("rate_bits", s.rate_bits);
  v("stripes", s.stripes);
  v("payload_sent", s.payload_sent);
  v("payload_received", s.payload_received);
  v("control_sent", s.control_sent);
  v("control_received", s.control_received);
  v("queued_bytes", s.queued_bytes);
  v("retransmitted", s.retransmitted);
  v("congestion", s.congestion);
}
template <class V> void fields(V& v, CopyStatus& s) {
  v("channel", s.channel);
  v("version", s.version);
  v("region", s.region);
  v("payload_bytes", s.payload_bytes);
  v("used_bytes", s.used_bytes);
  v("duplicate_bytes", s.duplicate_bytes);
}
template <class V> void fields(V& v, MirrorStatus& s) {
  v("url", s.url);
  v("writes", s.writes);
  v("version", s.version);
  v("chunk_bytes_read", s.chunk_bytes_read);
  v("other_bytes_read", s.other_bytes_read);
  v("bytes_written", s.bytes_written);
  v("refused", s.refused);
  v("failures", s.failures);
  v("last_success_ms", s.last_success_ms);
  v("problem", s.problem);
}
template <class V> void fields(V& v, StatusReply& s) {
  v("node", s.node);
  v("name", s.name);
  v("region", s.region);
  v("role", s.role);
  v("software", s.software);
  v("started_ms", s.started_ms);
  v("now_ms", s.now_ms);
  v("swarm", s.swarm);
  v("swarm_confined", s.swarm_confined);
  v("swarm_ended", s.swarm_ended);
  v("channels", s.channels);
  v("nodes", s.nodes);
  v("links", s.links);
  v("copies", s.copies);
  v("staleness", s.staleness);
  v("mirror", s.mirror);
}
template <class V> void fields(V& v, PeerChannel& s) { v("channel", s.channel); }
template <class V> void fields(V& v, PeerStatus& s) {
  v("node", s.node);
  v("name", s.name);
  v("region", s.region);
  v("trainer", s.trainer);
  v("bootstrap", s.bootstrap);
  v("life", s.life);
  v("linked", s.linked);
  v("address", s.address);
  v("round_trip_ms", s.round_trip_ms);
  v("rate_bits", s.rate_bits);
  v("channels", s.channels);
  v("doing", s.doing);
}
template <class V> void fields(V& v, PeersReply& s) { v("peers", s.peers); }
template <class V> void fields(V& v, LogEntry& s) {
  v("id", s.id);
  v("at_ms", s.at_ms);
  v("channel", s.channel);
  v("event", s.event);
  v("version", s.version);
  v("node", s.node);
  v("detail", s.detail);
}
template <class V> void fields(V& v, LogReply& s) {
  v("entries", s.entries);
  v("next", s.next);
  v("run", s.run);
  v("first", s.first);
  v("lost", s.lost);
}
template <class V> void fields(V& v, VersionInfo& s) {
  v("version", s.version);
  v("parent", s.parent);
  v("kind", s.kind);
  v("step", s.step);
  v("sealed", s.sealed);
  v("opened_ms", s.opened_ms);
  v("sealed_ms", s.sealed_ms);
  v("delta_bytes", s.delta_bytes);
  v("input_bytes", s.input_bytes);
  v("changed_elements", s.changed_elements);
  v("total_elements", s.total_elements);
  v("bits_per_changed_element", s.bits_per_changed_element);
  v("bundles", s.bundles);
}
template <class V> void fields(V& v, VersionsReply& s) {
  v("channel", s.channel);
  v("versions", s.versions);
}
template <class V> void fields(V& v, StageMoment& s) {
  v("stage", s.stage);
  v("at_us", s.at_us);
  v("seconds", s.seconds);
}
template <class V> void fields(V& v, TimelineNode& s) {
  v("node", s.node);
  v("name", s.name);
  v("region", s.region);
  v("trainer", s.trainer);
  v("stages", s.stages);
}
template <class V> void fields(V& v, TimelineRegion& s) {
  v("region", s.region);
  v("nodes", s.nodes);
  v("stages", s.stages);
}
template <class V> void fields(V& v, PathStep& s) {
  v("what", s.what);
  v("node", s.node);
  v("region", s.region);
  v("from_seconds", s.from_seconds);
  v("seconds", s.seconds);
  v("longest", s.longest);
}
template <class V> void fields(V& v, TimelineReply& s) {
  v("channel", s.channel);
  v("version", s.version);
  v("kind", s.kind);
  v("step", s.step);
  v("delta_bytes", s.delta_bytes);
  v("clock", s.clock);
  v("start_us", s.start_us);
  v("seconds", s.seconds);
  v("nodes", s.nodes);
  v("regions", s.regions);
  v("path", s.path);
}
template <class V> void fields(V& v, WaitReply& s) {
  v("channel", s.channel);
  v("version", s.version);
  v("active", s.active);
  v("total", s.total);
  v("done", s.done);
}
template <class V> void fields(V& v, TokenRequest& s) {
  v("uses", s.uses);
  v("channel", s.channel);
}
template <class V> void fields(V& v, TokenReply& s) {
  v("token", s.token);
  v("expires_ms", s.expires_ms);
}
template <class V> void fields(V& v, RotateRequest& s) {
  v("without", s.without);
  v("finish", s.finish);
}
template <class V> void fields(V& v, RotateReply& s) {
  v("secret_id", s.secret_id);
  v("members", s.members);
  v("finished", s.finished);
}
template <class V> void fields(V& v, ActivateRequest& s) { v("version", s.version); }
template <class V> void fields(V& v, SparseRequest& s) {
  v("from", s.from);
  v("version", s.version);
}
template <class V> void fields(V& v, SparseReply& s) {
  v("file", s.file);
  v("from", s.from);
  v("version", s.version);
  v("bytes", s.bytes);
  v("tensors", s.tensors);
  v("changed_elements", s.changed_elements);
}
template <class V> void fields(V& v, ActionReply& s) {
  v("channel", s.channel);
  v("version_staged", s.version_staged);
  v("version_active", s.version_active);
  v("state", s.state);
}

class JsonWriter {
 public:
  template <class T> void operator()(const char* key, T& value) { json[key] = value; }
  template <class T> void operator()(const char* key, std::vector<T>& values) {
    Json list = Json::array();
    for (T& value : values) {
      JsonWriter writer;
      fields(writer, value);
      list.push_back(std::move(writer.json));
    }
    json[key] = std::move(list);
  }
  void operator()(const char* key, MirrorStatus& value) {
    JsonWriter writer;
    fields(writer, value);
    json[key] = std::move(writer.json);
  }
  Json json = Json::object();
};

class JsonReader {
 public:
  JsonReader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    if (!json_.is_object()) problem_ = path_ + " is not an object";
  }
  void operator()(const char* key, std::string& value) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!found->is_string()) return wrong(key, "a text");
    value = found->get<std::string>();
  }
  void operator()(const char* key, bool& value) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!found->is_boolean()) return wrong(key, "true or false");
    value = found->get<bool>();
  }
  void operator()(const char* key, double& value) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!found->is_number()) return wrong(key, "a number");
    value = found->get<double>();
  }
  void operator()(const char* key, std::uint64_t& value) { whole(key, value, UINT64_MAX); }
  void operator()(const char* key, std::uint32_t& value) {
    std::uint64_t wide = value;
    whole(key, wide, UINT32_MAX);
    value = static_cast<std::uint32_t>(wide);
  }
  template <class T> void operator()(const char* key, std::vector<T>& values) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!found->is_array()) return wrong(key, "a list");
    for (const Json& element : *found) {
      JsonReader reader(element, path_ + "." + key);
      fields(reader, values.emplace_back());
      if (problem_.empty()) problem_ = reader.problem();
    }
  }
  void operator()(const char* key, MirrorStatus& value) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!found->is_object()) return wrong(key, "an object");
    JsonReader reader(*found, path_ + "." + key);
    fields(reader, value);
    problem_ = reader.problem();
  }
  const std::string& problem() const { return problem_; }

 private:
  const Json* find(const char* key) {
    if (!problem_.empty()) return nullptr;
    auto it = json_.find(key);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }
  void whole(const char* key, std::uint64_t& value, std::uint64_t high) {
    const Json* found = find(key);
    if (found == nullptr) return;
    if (!found->is_number_unsigned() || found->get<std::uint64_t>() > high) return wrong(key, "a whole number");
    value = found->get<std::uint64_t>();
  }
  void wrong(const char* key, const char* wanted) { problem_ = path_ + "." + key + " is not " + wanted; }

  const Json& json_;
  std::string path_;
  std::string problem_;
};

template <class T>
Json write(const T& value) {
  JsonWriter writer;
  fields(writer, const_cast<T&>(value));  // the writer only reads
  return std::move(writer.json);
}

constexpr ErrorCode kAllCodes[] = {
    ErrorCode::failed,    ErrorCode::io,           ErrorCode::no_space,  ErrorCode::config,      ErrorCode::usage,
    ErrorCode::bad_input, ErrorCode::unreachable,  ErrorCode::integrity, ErrorCode::wrong_parent, ErrorCode::malformed,
    ErrorCode::untrusted, ErrorCode::unsupported,  ErrorCode::not_found, ErrorCode::timed_out,   ErrorCode::incomplete,
    ErrorCode::busy,      ErrorCode::limit,        ErrorCode::interrupted};

}  // namespace

Json to_json(const StatusReply& value) { return write(value); }
Json to_json(const PeersReply& value) { return write(value); }
Json to_json(const LogReply& value) { return write(value); }
Json to_json(const LogEntry& value) { return write(value); }
Json to_json(const VersionsReply& value) { return write(value); }
Json to_json(const TimelineReply& value) { return write(value); }
Json to_json(const WaitReply& value) { return write(value); }
Json to_json(const TokenRequest& value) { return write(value); }
Json to_json(const TokenReply& value) { return write(value); }
Json to_json(const RotateRequest& value) { return write(value); }
Json to_json(const RotateReply& value) { return write(value); }
Json to_json(const ActivateRequest& value) { return write(value); }
Json to_json(const ActionReply& value) { return write(value); }
Json to_json(const SparseRequest& value) { return write(value); }
Json to_json(const SparseReply& value) { return write(value); }

template <class T>
Result<T> from_json(const Json& json) {
  T value;
  JsonReader reader(json, "body");
  fields(reader, value);
  if (!reader.problem().empty()) return fail(ErrorCode::malformed, "JSON: " + reader.problem());
  return value;
}

template <class T>
Result<T> parse(std::string_view text) {
  if (text.size() > kMaxBodyBytes) return fail(ErrorCode::limit, "JSON body is larger than 64 MiB");
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return fail(ErrorCode::malformed, "the body is not JSON");
  return from_json<T>(json);
}

#define P2PW_API_TYPE(T)                       \
  template Result<T> from_json<T>(const Json&); \
  template Result<T> parse<T>(std::string_view);
P2PW_API_TYPE(StatusReply)
P2PW_API_TYPE(PeersReply)
P2PW_API_TYPE(LogReply)
P2PW_API_TYPE(LogEntry)
P2PW_API_TYPE(VersionsReply)
P2PW_API_TYPE(TimelineReply)
P2PW_API_TYPE(WaitReply)
P2PW_API_TYPE(TokenRequest)
P2PW_API_TYPE(TokenReply)
P2PW_API_TYPE(RotateRequest)
P2PW_API_TYPE(RotateReply)
P2PW_API_TYPE(ActivateRequest)
P2PW_API_TYPE(ActionReply)
P2PW_API_TYPE(SparseRequest)
P2PW_API_TYPE(SparseReply)
#undef P2PW_API_TYPE

ErrorCode code_from_name(std::string_view name) {
  for (ErrorCode code : kAllCodes) {
    if (name_of(code) == name) return code;
  }
  return ErrorCode::failed;
}

Json to_json(const Error& error) {
  return {{"error", {{"code", name_of(error.code)}, {"message", error.message}}}};
}

Error error_from_text(std::string_view body, int http_status) {
  Json json = Json::parse(body, nullptr, false);
  if (!json.is_discarded() && json.is_object() && json.contains("error") && json["error"].is_object()) {
    std::string code, message = "p2pwd gave no reason";
    JsonReader reader(json["error"], "error");
    reader("code", code);
    reader("message", message);
    return fail(code_from_name(code), message);
  }
  return fail(ErrorCode::failed, "p2pwd answered with HTTP status " + std::to_string(http_status) + " and no reason");
}

int http_status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage:
    case ErrorCode::config:
    case ErrorCode::bad_input:
    case ErrorCode::malformed:
    case ErrorCode::limit: return 400;
    case ErrorCode::untrusted: return 403;
    case ErrorCode::not_found: return 404;
    case ErrorCode::timed_out: return 408;
    case ErrorCode::busy:
    case ErrorCode::incomplete:
    case ErrorCode::wrong_parent: return 409;
    case ErrorCode::unreachable: return 503;
    default: return 500;
  }
}

}  // namespace p2pw::api
