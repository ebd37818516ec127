#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/daemon_access.h"
#include "cli/verb.h"

namespace p2pw {
namespace {

Status token(const api::TokenRequest& request, Console& console) {
  P2PW_TRY(ApiClient daemon, connect_daemon(console));
  P2PW_TRY(api::TokenReply reply, daemon.make_token(request));
  console.note("Good for one hour and " + std::to_string(request.uses) + (request.uses == 1 ? " node" : " nodes") +
               "; type on it: p2pw join TOKEN --region REGION" +
               (request.channel.empty() ? "" : "; on one that has joined already: p2pw channel add TOKEN"));
  console.answer(api::to_json(reply), reply.token);
  return {};
}

Run add_token(CLI::App& verb) {
  auto request = std::make_shared<api::TokenRequest>();
  verb.add_option("--uses", request->uses, "How many nodes may join with it")->check(CLI::Range(1, 10000))
      ->capture_default_str();
  verb.add_option("--channel,-c", request->channel, "The channel that they will follow, when there are several");
  return [request](Console& console) { return token(*request, console); };
}

const VerbRegistration kToken({"token", VerbGroup::setup, "Print a token with which a node can join the fleet.",
                               "p2pw token --uses 8", add_token});

}  // namespace
}  // namespace p2pw
