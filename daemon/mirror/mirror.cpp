#include "daemon/mirror/mirror.h"

#include <spdlog/spdlog.h>

namespace p2pw {

MirrorAccess::MirrorAccess(std::unique_ptr<MirrorStore> store, WorkPool::Executor executor, Clock clock, Told told)
    : store_(std::move(store)),
      clock_(std::move(clock)),
      told_(std::move(told)),
      pool_(std::make_unique<WorkPool>(kThreads, std::move(executor))) {}

MirrorAccess::~MirrorAccess() {
  store_->stop();
  pool_.reset();
}

namespace {

bool of_one_object(ErrorCode code) {
  return code == ErrorCode::not_found || code == ErrorCode::integrity || code == ErrorCode::malformed ||
         code == ErrorCode::limit;
}

}  // namespace

void MirrorAccess::note(const Error* error) {
  const auto [now, wall] = clock_();
  const bool healthy = error == nullptr || of_one_object(error->code);
  if (error != nullptr && error->code == ErrorCode::interrupted) return;
  if (healthy) {
    backoff_.succeeded();
    stats_.last_success = wall;
    if (!stats_.problem.empty()) {
      spdlog::info("the mirror answers again");
      told_("mirror-back", "it answers again");
    }
    stats_.problem.clear();
    return;
  }
  backoff_.failed(now);
  ++stats_.failures[std::string(name_of(error->code))];
  // Said once, and again when it fails in another way.
  if (stats_.problem.empty() || error->code != told_code_) {
    const std::string text = std::string(name_of(error->code)) + ": " + error->message;
    spdlog::warn("mirror: {}", text);
    told_("mirror-failed", text);
  }
  told_code_ = error->code;
  stats_.problem = error->message;
}

}  // namespace p2pw
