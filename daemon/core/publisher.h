// The daemon's side of publishing: one session at a time for each channel holds its publish lock and pins the active slot.
//
//   waiting (the fleet is too far behind, or the own slot not settled) -> pinned -> keyed (records and bundles come)
//   -> sealed -> done (the own slot is active at the version)
//
// A session that ends before its seal gives the version up: the next one has a new number and salt. Control thread only.
#pragma once

#include <map>

#include "daemon/core/follower.h"
#include "daemon/core/publish_server.h"
#include "daemon/core/store_window.h"

namespace p2pw {

class Node;

class Publisher : public PublishHost {
 public:
  explicit Publisher(Node& node) : node_(node) {}
  void publish_message(const PublishSessionPtr& session, const wire::PublishMessage& message, Bytes payload) override;
  void publish_closed(const PublishSessionPtr& session) override;
  // Something has changed: sessions that wait may go on.
  void tick();
  bool publishing(const Channel& channel) const;

 private:
  enum class State { waiting, pinned, keyed, sealed, done };
  struct Session {
    PublishSessionPtr connection;
    Follower* follower = nullptr;
    State state = State::waiting;
    Version asked, version;
    bool again = false;  // an anchor of the newest version
    SecretId secret;  // of the frames: pinned, as a rotation may come between
    bool wait_for_fleet = false;
    SlotPin pin;
    std::optional<RunId> run;
    std::string last_progress;
    std::shared_ptr<StoreWindow> window = std::make_shared<StoreWindow>();  // what is being stored may outlive the session
  };

  void open(const PublishSessionPtr& connection, const wire::PublishMessage& message);
  void try_pin(Session& session);
  std::optional<Error> obstacle(const Session& session) const;
  void send_pinned(Session& session);
  Status salt(Session& session, const wire::PublishMessage& message);
  Status record(Session& session, const wire::PublishMessage& message);
  Status bundle(Session& session, const wire::PublishMessage& message, Bytes payload);
  void report(Session& session);
  Session* find(const PublishSessionPtr& connection);

  Node& node_;
  std::map<PublishSession*, Session> sessions_;
};

}  // namespace p2pw
