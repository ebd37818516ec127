#include "daemon/core/hot_load.h"

#include <nlohmann/json.hpp>

#include "daemon/core/node.h"
#include "daemon/core/node_reports.h"

namespace p2pw {
namespace {

constexpr std::size_t kMaxIdentity = 512;

Result<Follower*> chosen_follower(Node& node, const ApiRequest& request) {
  auto& followers = node.followers();
  if (followers.size() == 1) return followers.begin()->second.get();
  std::string name = request.deployment.substr(request.deployment.rfind('/') + 1);
  auto channel = Channel::parse(name);
  Follower* found = channel.ok() ? node.follower(*channel) : nullptr;
  if (found) return found;
  return fail(ErrorCode::not_found, "this daemon follows several channels: name one in the header fireworks-deployment");
}

Result<const Run*> run_of(const Follower& follower, const std::string& identity) {
  auto number = number_of_identity(identity);
  if (!number) {
    return fail(ErrorCode::bad_input, "identity must be one path segment that ends with the number of a version or step");
  }
  if (const Run* run = follower.log().version(Version(*number))) return run;
  std::uint64_t newest = follower.version_sealed().value();
  for (std::uint64_t v = newest; v > 0 && newest - v < 1000; --v) {
    const Run* run = follower.log().version(Version(v));
    if (run && run->open().step && *run->open().step == static_cast<std::int64_t>(*number)) return run;
  }
  return fail(ErrorCode::not_found, "identity " + identity + " names no version of channel " + follower.channel().str() +
                                        " that is known here: publish it first (p2pw seed DIR --version " +
                                        std::to_string(*number) + ")");
}

std::optional<bool> flush_choice(const Json& body) {
  auto it = body.find("reset_prompt_cache");
  if (it == body.end()) return std::nullopt;
  if (it->is_boolean()) return it->get<bool>();
  if (it->is_string() && (*it == "none" || *it == "new_session")) return false;
  if (it->is_string() && *it == "all") return true;
  return std::nullopt;
}

ApiResponse want(Node& node, Follower& follower, const std::string& text) {
  Json body = Json::parse(text, nullptr, false);
  auto identity = body.is_object() ? body.find("identity") : body.end();
  if (!body.is_object() || identity == body.end() || !identity->is_string()) {
    return error_response(fail(ErrorCode::bad_input, "the body must be a JSON object with an identity"));
  }
  std::string name = identity->get<std::string>();
  auto run = run_of(follower, name);
  if (!run.ok()) return error_response(run.error());
  Version version = (*run)->version();
  auto metadata = body.find("incremental_snapshot_metadata");
  if (metadata != body.end() && metadata->is_object() && metadata->contains("previous_snapshot_identity")) {
    const Json& given = (*metadata)["previous_snapshot_identity"];
    auto previous = given.is_string() ? run_of(follower, given.get<std::string>())
                                      : Result<const Run*>(fail(ErrorCode::bad_input, "previous_snapshot_identity is no text"));
    if (!previous.ok()) return error_response(previous.error());
    if ((*run)->open().parent != (*previous)->version()) {
      return error_response(fail(ErrorCode::wrong_parent, "version " + std::to_string(version.value()) + " was made from version " +
                                                       std::to_string((*run)->open().parent.value()) + ", not from " +
                                                       given.get<std::string>()));
    }
  }
  node.name_version(follower.channel(), version, name);
  follower.want(version, flush_choice(body));
  Json reply = {{"identity", name}, {"version", version.value()}};
  Version active = follower.version_active();
  reply["current_snapshot_identity"] = active.value() == 0 ? Json(nullptr) : Json(node.version_name(follower.channel(), active));
  return json_response(reply);
}

Json replica(Node& node, const Follower& follower, const wire::NodeState& state) {
  auto name = [&](std::uint64_t version) -> Json {
    if (version == 0) return nullptr;
    return node.version_name(follower.channel(), Version(version));
  };
  bool ready = state.version_active() != 0 && state.state() != "unknown" && state.state() != "offline";
  return {{"name", state.name()},
          {"region", state.region()},
          {"readiness", ready},
          {"current_snapshot_identity", name(state.version_active())},
          {"loading_state",
           {{"stage", hot_load_stage(state.state())}, {"target_snapshot_identity", name(follower.version_sealed().value())}}}};
}

ApiResponse replicas(Node& node, const Follower& follower) {
  Json list = Json::array();
  for (const wire::NodeState& state : node.states().all()) {
    if (state.channel() != follower.channel().str()) continue;
    if (is_trainer(node, state)) continue;
    list.push_back(replica(node, follower, state));
  }
  Json reply;
  reply["replicas"] = std::move(list);
  return json_response(reply);
}

}  // namespace

std::optional<std::uint64_t> number_of_identity(std::string_view identity) {
  if (identity.empty() || identity.size() > kMaxIdentity || identity.find('/') != identity.npos) return std::nullopt;
  auto last = identity.find_last_not_of("0123456789");
  auto digits = identity.substr(last == identity.npos ? 0 : last + 1);
  if (digits.empty()) return std::nullopt;
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  if (digits.size() > 18) return std::nullopt;
  return std::stoull(std::string(digits));
}

std::string_view hot_load_stage(std::string_view state) {
  if (state == "idle" || state == "frozen") return "done";
  if (state == "activating") return "loading";
  if (state == "unknown") return "error";
  return state == "offline" ? "pending" : "downloading";
}

void answer_hot_load(Node& node, const ApiRequest& request, const ApiServer::Reply& reply) {
  auto follower = chosen_follower(node, request);
  if (!follower.ok()) return reply(error_response(follower.error()));
  std::string_view rest = std::string_view(request.path).substr(kHotLoadPath.size());
  if (rest.empty() && request.method == "GET") return reply(replicas(node, **follower));
  if (rest.empty() && request.method == "POST") return reply(want(node, **follower, request.body));
  if (rest == "/hint" && request.method == "POST") return reply({200, "{}", "application/json"});
  reply(error_response(fail(ErrorCode::not_found, "no such resource: " + request.method + " " + request.path)));
}

}  // namespace p2pw
