// The local API of p2pwd as values: what the daemon's server writes and its clients read, one struct per JSON object, so
// that both sides share one schema. HTTP/1.1 over the unix socket api.sock (and over loopback TCP where configured).
//
//   GET  /v1/status                                    -> StatusReply
//   GET  /v1/peers                                     -> PeersReply
//   GET  /v1/log?channel=C&after=ID&limit=N&wait=S&run=R  -> LogReply (waits up to S seconds while there is nothing new)
//                newest=N in place of after: begins with the newest N
//   GET  /v1/channels/C/versions?limit=N               -> VersionsReply
//   GET  /v1/channels/C/timeline?version=N             -> TimelineReply
//   GET  /v1/channels/C/wait?version=N&percent=95&of=sealed|live&timeout=S  -> WaitReply (answers when done or timed out)
//   POST /v1/tokens               TokenRequest         -> TokenReply
//   POST /v1/fleet-secret         RotateRequest        -> RotateReply      trainer
//   POST /v1/channels/C/activate  ActivateRequest      -> ActionReply
//   POST /v1/channels/C/rollback  {}                   -> ActionReply     the node's own slot (`rollback --local`)
//   POST /v1/channels/C/release   {}                   -> ActionReply     the engine no longer reads the old slot
//   POST /v1/channels/C/sparse    SparseRequest        -> SparseReply     a file that leads from one version to another
//   GET  /metrics                                      -> Prometheus text
//   GET  /                                             -> the dashboard, a page that fetches the rest; needs no token
//
// Errors: HTTP status by http_status_of(code), body {"error": {"code", "message"}}.
//
// from_json() is lenient: absent keys keep their defaults, unknown ones are skipped, a value of the wrong type is an
// error. Numbers are JSON numbers, keys and hashes hex, times milliseconds since the Unix epoch.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/result.h"

namespace p2pw {

using Json = nlohmann::ordered_json;

namespace api {

inline constexpr std::size_t kMaxBodyBytes = 64u << 20;

// This node's view of one channel.
struct ChannelStatus {
  std::string channel;
  std::string publisher;              // minisign line
  std::uint64_t version_sealed = 0;   // highest sealed version known
  std::uint64_t version_staged = 0;
  std::uint64_t version_active = 0;
  std::string state = "idle";
  std::string current;                // path of the `current` link; empty while there is none
  std::string head = "none";          // live, frozen, none
  std::uint64_t step = 0;             // label of the highest sealed version
  bool publishing = false;            // a seed holds the channel's lock
  std::uint64_t bundle_store_bytes = 0;
  std::string problem;                // why it does not get on, with what to do; empty = nothing
  std::string hook = "none";          // none, sglang, vllm, webhook, socket, exec
  std::string engine = "none";        // known: it said that it serves version_active; unknown; none: no hook
  std::string engine_says;            // the version that it named last
  double pause_ms = 0;                // of the newest load: from pause to continue
  double load_ms = 0;                 // of that, the engine's own loading
  std::string active_digest;          // of the active version, as its seal says; `p2pw verify` prints the same
};

// One for each node and channel, as the nodes report it.
struct NodeStatus {
  std::string node;     // key, hex
  std::string name;
  std::string channel;
  std::string region;
  std::uint64_t version_staged = 0;
  std::uint64_t version_active = 0;
  std::string state = "idle";  // idle, fetching, rebuilding, staged, activating, joining, unknown, frozen, offline
  std::uint64_t lag_versions = 0;  // sealed versions that it does not serve yet; 0 also while unknown
  double lag_seconds = 0;      // since the first version that this node has not activated was sealed; 0 = none
  std::uint64_t percent = 0;   // of the version that it is fetching
  std::string why;             // why it is not on the newest version, or not well; empty = all is well
};

struct LinkStatus {
  std::string node;
  std::string name;
  std::string region;
  std::string address;
  double round_trip_ms = 0;
  double clock_offset_ms = 0;
  std::uint64_t rate_bits = 0;
  std::uint32_t stripes = 0;
  std::uint64_t payload_sent = 0, payload_received = 0;
  std::uint64_t control_sent = 0, control_received = 0;
  std::uint64_t queued_bytes = 0;     // handed to the link and not yet written
  std::uint64_t retransmitted = 0;    // segments
  std::string congestion;             // congestion control of the stripes
};

// Chunk payload that this daemon wrote into one region, for one version.
struct CopyStatus {
  std::string channel;
  std::uint64_t version = 0;
  std::string region;
  std::uint64_t payload_bytes = 0;  // written towards that region over links
  std::uint64_t used_bytes = 0;     // of the version's bundles
  std::uint64_t duplicate_bytes = 0;
};

// How far the nodes of a channel are behind its highest sealed version: without trainers, live nodes only.
struct Staleness {
  std::string channel;
  std::uint64_t nodes = 0;
  std::uint64_t current = 0;        // serve the highest sealed version
  std::uint64_t behind_1 = 0;       // one version behind
  std::uint64_t behind_2 = 0;       // two
  std::uint64_t behind_more = 0;
  std::uint64_t unknown = 0;        // nobody knows what their engine serves; not among the others
  double seconds_median = 0;        // since the first version that a node does not serve was sealed
  double seconds_p95 = 0;
  double seconds_max = 0;
};

// What this daemon has had to do with shared storage since its start. Without one the URL is empty.
struct MirrorStatus {
  std::string url;
  bool writes = false;                 // keeps it filled, in turn with others
  std::uint64_t version = 0;           // newest version that it is known to hold; 0: not known to this daemon
  std::uint64_t chunk_bytes_read = 0;  // payload of bundles
  std::uint64_t other_bytes_read = 0;  // metas, records
  std::uint64_t bytes_written = 0;
  std::uint64_t refused = 0;           // objects that are not what the publisher signed
  std::uint64_t failures = 0;
  std::uint64_t last_success_ms = 0;
  std::string problem;                 // of the last call that failed; empty after one that did not
};

struct StatusReply {
  std::string node, name, region, role, software;
  std::uint64_t started_ms = 0;
  std::uint64_t now_ms = 0;
  std::string swarm;            // what confines the region's swarm, for people; empty on a trainer, which has none
  bool swarm_confined = false;  // all of it
  std::uint64_t swarm_ended = 0;  // its processes that ended unasked, since the start
  std::vector<ChannelStatus> channels;
  std::vector<NodeStatus> nodes;
  std::vector<LinkStatus> links;
  std::vector<CopyStatus> copies;
  std::vector<Staleness> staleness;
  MirrorStatus mirror;
};

// A member of the fleet, and why there is or is no traffic with it.
struct PeerChannel {
  std::string channel;
};
struct PeerStatus {
  std::string node, name, region;
  bool trainer = false, bootstrap = false;
  std::string life = "live";   // live, suspect, gone
  bool linked = false;
  std::string address;
  double round_trip_ms = 0;
  std::uint64_t rate_bits = 0;
  std::vector<PeerChannel> channels;  // that it follows
  std::string doing;           // "gateway of 3 bundles", "idle: has everything", ...
};
struct PeersReply {
  std::vector<PeerStatus> peers;
};

// An entry of the event log; ids rise by one, so a gap shows.
struct LogEntry {
  std::uint64_t id = 0;
  std::uint64_t at_ms = 0;
  std::string channel;
  std::string event;           // "open", "bundle", "seal", ... for records; "staged", "active", "gateway", ... else
  std::uint64_t version = 0;
  std::string node;            // whom it is about; empty = this node
  std::string detail;          // for people
};
struct LogReply {
  std::vector<LogEntry> entries;
  std::uint64_t next = 0;      // pass as `after`
  std::uint64_t run = 0;       // when this log began, in ms: ids begin anew with every start of the daemon. Pass as `run`:
                               // with another one, `after` is meaningless and the answer begins at the oldest entry
  std::uint64_t first = 0;     // the oldest id that is still held
  std::uint64_t lost = 0;      // entries after `after` that are held no longer
};

// One version of a channel, as its signed records say.
struct VersionInfo {
  std::uint64_t version = 0, parent = 0;
  std::string kind;             // anchor, delta
  std::uint64_t step = 0;
  bool sealed = false;
  std::uint64_t opened_ms = 0, sealed_ms = 0;  // on the publisher's clock
  std::uint64_t delta_bytes = 0, input_bytes = 0;
  std::uint64_t changed_elements = 0, total_elements = 0;
  double bits_per_changed_element = 0;
  std::uint64_t bundles = 0;
};
struct VersionsReply {
  std::string channel;
  std::vector<VersionInfo> versions;  // newest first
};

// When what happened to one version, on the clock of the daemon that answers. `seconds` count from the first moment.
struct StageMoment {
  std::string stage;            // requested, opened, first_bundle, sealed, first_byte, last_byte, staged, active
  std::uint64_t at_us = 0;
  double seconds = 0;
};
struct TimelineNode {
  std::string node, name, region;
  bool trainer = false;
  std::vector<StageMoment> stages;
};
struct TimelineRegion {         // first_byte: of its first node; the others: of its last one
  std::string region;
  std::uint64_t nodes = 0;
  std::vector<StageMoment> stages;
};
// The way to the node that was last, step by step.
struct PathStep {
  std::string what, node, region;
  double from_seconds = 0, seconds = 0;
  bool longest = false;
};
struct TimelineReply {
  std::string channel;
  std::uint64_t version = 0;
  std::string kind;
  std::uint64_t step = 0, delta_bytes = 0;
  std::string clock;            // whose
  std::uint64_t start_us = 0;
  double seconds = 0;           // until the last node was there
  std::vector<TimelineNode> nodes;
  std::vector<TimelineRegion> regions;
  std::vector<PathStep> path;
};

struct WaitReply {
  std::string channel;
  std::uint64_t version = 0;
  std::uint64_t active = 0;
  std::uint64_t total = 0;
  bool done = false;
};

struct TokenRequest {
  std::uint32_t uses = 1;
  std::string channel;         // empty: the only one
};
struct TokenReply {
  std::string token;
  std::uint64_t expires_ms = 0;
};

struct RotateRequest {
  std::string without;  // node keys in hex, separated by commas, that are not to have the new secret
  bool finish = false;
};
struct RotateReply {
  std::string secret_id;
  std::uint64_t members = 0;
  bool finished = false;
};

struct ActivateRequest {
  std::uint64_t version = 0;   // 0 = the staged one
};
struct ActionReply {
  std::string channel;
  std::uint64_t version_staged = 0;
  std::uint64_t version_active = 0;
  std::string state;
};

// Both versions must stand whole on the node, one in each slot. 0 = the older, the newer of the two.
struct SparseRequest {
  std::uint64_t from = 0;
  std::uint64_t version = 0;
};
struct SparseReply {
  std::string file;            // safetensors, on this machine, until the next one is made; chunker/sparse_export.h
  std::uint64_t from = 0;
  std::uint64_t version = 0;
  std::uint64_t bytes = 0;
  std::uint64_t tensors = 0;
  std::uint64_t changed_elements = 0;
};

Json to_json(const StatusReply&);
Json to_json(const PeersReply&);
Json to_json(const LogReply&);
Json to_json(const LogEntry&);
Json to_json(const VersionsReply&);
Json to_json(const TimelineReply&);
Json to_json(const WaitReply&);
Json to_json(const TokenRequest&);
Json to_json(const TokenReply&);
Json to_json(const RotateRequest&);
Json to_json(const RotateReply&);
Json to_json(const ActivateRequest&);
Json to_json(const ActionReply&);
Json to_json(const SparseRequest&);
Json to_json(const SparseReply&);

// T: every struct above that has a to_json(). Errors: malformed, naming the key.
template <class T>
Result<T> from_json(const Json& json);
// Parses text first.
template <class T>
Result<T> parse(std::string_view text);

Json to_json(const Error& error);      // {"error": {"code", "message"}}
Error error_from_text(std::string_view body, int http_status);  // of an answer that is no success
ErrorCode code_from_name(std::string_view name);                // the inverse of name_of(); failed for an unknown name
int http_status_of(ErrorCode code);

}  // namespace api
}  // namespace p2pw
