#include "daemon/core/sparse_maker.h"

namespace p2pw {
namespace {

struct End {
  SlotPin pin;
  StagedVersion version;
};

std::optional<End> end_of(SlotPin pin) {
  auto version = pin ? pin->staged() : std::nullopt;
  if (!version) return std::nullopt;
  return End{std::move(pin), *version};
}

std::string number(Version version) { return std::to_string(version.value()); }

}  // namespace

SparseMaker::SparseMaker(SlotPair& slots, WorkPool& pool, std::filesystem::path folder)
    : slots_(slots), pool_(pool), folder_(std::move(folder)) {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);  // of a daemon that was killed
}

SparseMaker::~SparseMaker() { *stop_ = true; }

void SparseMaker::make(Version from, Version to, Done done) {
  if (busy_) return done(fail(ErrorCode::busy, "a sparse hand-over is being made already; ask again when it is done"));
  auto one = end_of(slots_.pin_active()), two = end_of(slots_.pin_standby());
  if (!one || !two || one->version.version() == two->version.version()) {
    return done(fail(ErrorCode::not_found, "only one version stands whole on this node, and a hand-over leads from one to "
                                           "another: load the whole checkpoint"));
  }
  if (two->version.version() < one->version.version()) std::swap(one, two);
  if (to.value() != 0 && to == one->version.version()) std::swap(one, two);
  bool fits = (from.value() == 0 || from == one->version.version()) && (to.value() == 0 || to == two->version.version());
  if (!fits) {
    return done(fail(ErrorCode::not_found, "this node holds versions " + number(one->version.version()) + " and " +
                                               number(two->version.version()) + ", not " + number(from) + " and " +
                                               number(to) + ": load the whole checkpoint"));
  }
  from = one->version.version();
  to = two->version.version();
  if (made_ && made_->from == from && made_->to == to && std::filesystem::exists(made_->file)) return done(*made_);
  remove_file();
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  SparseHandOver planned{folder_ / (number(from) + "-" + number(to) + ".safetensors"), from, to, {}};
  SparseEnds ends{one->pin->checkpoint(), two->pin->checkpoint(), one->version.table_hash(), two->version.table_hash(),
                  from.value(), to.value()};
  busy_ = true;
  pool_.run([ends, file = planned.file, stop = stop_, one, two] { return export_sparse(ends, file, [stop] { return stop->load(); }); },
            [this, alive = std::weak_ptr<int>(alive_), planned, done = std::move(done)](Result<SparseSummary> made) mutable {
              if (alive.expired()) return;
              busy_ = false;
              if (!made.ok()) return done(made.error());
              planned.summary = *made;
              made_ = planned;
              done(planned);
            });
}

void SparseMaker::remove_file() {
  if (!made_) return;
  std::error_code ignored;
  std::filesystem::remove(made_->file, ignored);
  made_.reset();
}

}  // namespace p2pw
