#include "chunker/slot_pair.h"

namespace p2pw {

struct SlotPair::Pins {
  std::mutex mutex;
  std::size_t counts[2] = {0, 0};
  std::function<void()> tell;

  void let_go(SlotName name) {
    std::lock_guard lock(mutex);
    if (--counts[static_cast<std::size_t>(name)] == 0 && tell) tell();
  }
};

SlotPair::SlotPair(FileSystem& files, SlotPlaces places)
    : files_(files), places_(std::move(places)), pins_(std::make_shared<Pins>()) {
  if (places_.a.empty()) places_.a = places_.channel / "slots" / "a";
  if (places_.b.empty()) places_.b = places_.channel / "slots" / "b";
  bytes_ = std::make_shared<ByteStore>(files_, places_.channel / "bytes");
}

SlotPair::~SlotPair() { on_unpinned(nullptr); }

void SlotPair::on_unpinned(std::function<void()> tell) {
  std::lock_guard lock(pins_->mutex);
  pins_->tell = std::move(tell);
}

Result<std::unique_ptr<SlotPair>> SlotPair::open(FileSystem& files, SlotPlaces places) {
  std::unique_ptr<SlotPair> pair(new SlotPair(files, std::move(places)));
  P2PW_CHECK(files.make_directories(pair->places_.channel / "slots"));
  P2PW_CHECK(files.sync_directory(pair->places_.channel));
  P2PW_TRY(pair->slots_[0], Slot::open(files, pair->places_.a, SlotName::a, pair->bytes_));
  if (pair->places_.single) {
    pair->slots_[1] = pair->slots_[0];
  } else {
    P2PW_TRY(pair->slots_[1], Slot::open(files, pair->places_.b, SlotName::b, pair->bytes_));
  }
  P2PW_CHECK(pair->find_current());
  return pair;
}

std::string SlotPair::link_text(SlotName name) const {
  std::filesystem::path target = slot(name)->checkpoint();
  std::filesystem::path relative = target.lexically_relative(places_.channel);
  // A channel folder that is moved or mounted elsewhere keeps working, as long as the slots lie in it.
  bool inside = !relative.empty() && *relative.begin() != "..";
  return inside ? relative.string() : std::filesystem::absolute(target).string();
}

Status SlotPair::find_current() {
  auto target = files_.read_link(current());
  if (!target && target.error().code == ErrorCode::not_found) return {};
  if (!target) return target.error();
  for (SlotName name : {SlotName::a, SlotName::b}) {
    if (*target == link_text(name) && slot(name)->phase() == Slot::Phase::whole) {
      active_ = name;
      held_ = places_.single;  // whoever serves from it has not said anything to this process
      return {};
    }
  }
  P2PW_CHECK(files_.remove(current()));
  return files_.sync_directory(places_.channel);
}

Status SlotPair::point_current(std::optional<SlotName> name) {
  std::filesystem::path temporary = places_.channel / "current.new";
  if (name) {
    P2PW_CHECK(files_.remove(temporary));
    P2PW_CHECK(files_.symlink(link_text(*name), temporary));
    P2PW_CHECK(files_.rename(temporary, current()));
  } else {
    P2PW_CHECK(files_.remove(current()));
  }
  return files_.sync_directory(places_.channel);
}

Status SlotPair::move_current(SlotName name) {
  {
    std::lock_guard lock(mutex_);
    unsettled_ = true;
  }
  P2PW_CHECK(point_current(name));
  std::lock_guard lock(mutex_);
  unsettled_ = false;
  return {};
}

Status SlotPair::settle() {
  std::optional<SlotName> name;
  {
    std::lock_guard lock(mutex_);
    if (!unsettled_) return {};
    name = active_;
  }
  P2PW_CHECK(point_current(name));
  std::lock_guard lock(mutex_);
  unsettled_ = false;
  return {};
}

std::shared_ptr<Slot> SlotPair::active() const {
  std::lock_guard lock(mutex_);
  return active_ ? slot(*active_) : nullptr;
}

std::shared_ptr<Slot> SlotPair::standby() const {
  std::lock_guard lock(mutex_);
  if (places_.single) return slots_[0];
  if (active_) return slot(other(*active_));
  // The one that has got further. Both whole, without `current`: the newer.
  auto rank = [](const Slot& s) { return std::pair(s.phase() == Slot::Phase::empty ? 0 : 1, s.version()); };
  return rank(*slots_[1]) > rank(*slots_[0]) ? slots_[1] : slots_[0];
}

std::optional<StagedVersion> SlotPair::active_version() const {
  std::shared_ptr<Slot> slot = active();
  return slot == nullptr ? std::nullopt : slot->staged();
}

Status SlotPair::switch_to(const StagedVersion& staged) {
  std::shared_ptr<Slot> next = standby();
  auto held = next->staged();
  if (next->name() != staged.slot() || !held || held->version() != staged.version() || held->seal() != staged.seal()) {
    return fail(ErrorCode::usage, "version " + std::to_string(staged.version().value()) +
                                      " does not stand in the standby slot any more");
  }
  P2PW_CHECK(move_current(staged.slot()));
  std::lock_guard lock(mutex_);
  can_switch_back_ = active_.has_value() && !places_.single;
  held_ = can_switch_back_ || places_.single;
  active_ = staged.slot();
  return {};
}

Status SlotPair::switch_back() {
  SlotName old;
  {
    std::lock_guard lock(mutex_);
    if (!active_ || !can_switch_back_) return fail(ErrorCode::usage, "there is no version to switch back to; p2pw status shows what this node has");
    old = other(*active_);
  }
  P2PW_CHECK(move_current(old));
  std::lock_guard lock(mutex_);
  active_ = old;
  can_switch_back_ = held_ = false;
  return {};
}

bool SlotPair::settled() const {
  std::lock_guard lock(mutex_);
  return !unsettled_;
}

bool SlotPair::can_switch_back() const {
  std::lock_guard lock(mutex_);
  return can_switch_back_;
}

void SlotPair::release() {
  std::lock_guard lock(mutex_);
  if (!places_.single) held_ = can_switch_back_ = false;
}

void SlotPair::let_go() {
  std::lock_guard lock(mutex_);
  if (places_.single) held_ = false;
}

Status SlotPair::vacate() {
  if (!places_.single) return {};
  {
    std::lock_guard lock(mutex_);
    if (!active_) return {};
    unsettled_ = true;
  }
  P2PW_CHECK(point_current(std::nullopt));
  std::lock_guard lock(mutex_);
  active_.reset();
  unsettled_ = false;
  return {};
}

bool SlotPair::held() const {
  std::lock_guard lock(mutex_);
  return held_;
}

void SlotPair::hold_standby(bool hold) {
  std::lock_guard lock(mutex_);
  reserved_ = hold;
}

SlotPin SlotPair::pin_active() {
  std::lock_guard lock(mutex_);
  return active_ ? pin(*active_) : nullptr;
}

SlotPin SlotPair::pin_standby() {
  std::shared_ptr<Slot> slot = standby();
  std::lock_guard lock(mutex_);
  return slot->phase() == Slot::Phase::whole && slot->staged() ? pin(slot->name()) : nullptr;
}

SlotPin SlotPair::pin(SlotName name) {
  {
    std::lock_guard lock(pins_->mutex);
    ++pins_->counts[static_cast<std::size_t>(name)];
  }
  // The pin shares the slot's ownership through its deleter.
  return SlotPin(slot(name).get(), [slot = slot(name), pins = pins_, name](const Slot*) { pins->let_go(name); });
}

bool SlotPair::standby_free() const {
  std::shared_ptr<Slot> slot = standby();
  std::lock_guard lock(mutex_);
  std::lock_guard pins_lock(pins_->mutex);
  return !held_ && !reserved_ && !unsettled_ && pins_->counts[static_cast<std::size_t>(slot->name())] == 0;
}

}  // namespace p2pw
