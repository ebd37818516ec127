#include "daemon/mirror/mirror_slab.h"

#include "chunker/codec/codec.h"

namespace p2pw {
namespace {

struct Place {
  BundleId bundle;
  BundleIndex index;
  FrameIndex frame;
  FrameEntry entry;
};

Result<std::shared_ptr<const BundleMeta>> meta_of(MirrorStore& store, const MirrorNames& names, const BundleId& id,
                                                  const BundleRecord& record, MetaCache& metas, std::uint64_t& read) {
  if (auto known = metas.find(id)) return known;
  P2PW_TRY(Bytes encoded, store.get(names.meta(id), record.meta_bytes));
  read += encoded.size();
  P2PW_TRY(BundleMeta decoded, BundleMeta::decode(encoded, record));
  auto meta = std::make_shared<const BundleMeta>(std::move(decoded));
  metas.add(id, meta);
  return meta;
}

// The slab's frame in this step; none: it is unchanged there.
Result<std::optional<Place>> find_frame(MirrorStore& store, const MirrorNames& names, const SlabWay& way,
                                        const SlabWay::Step& step, MetaCache& metas, std::uint64_t& read) {
  for (const auto& [id, record] : step.bundles) {
    P2PW_TRY(auto meta, meta_of(store, names, id, record, metas, read));
    for (std::size_t i = 0; i < meta->frames.size(); ++i) {
      if (meta->frames[i].slab != SlabId::tensor(way.slab)) continue;
      return std::optional<Place>({id, record.index, FrameIndex(static_cast<std::uint32_t>(i)), meta->frames[i]});
    }
  }
  return std::optional<Place>();
}

}  // namespace

std::shared_ptr<const BundleMeta> MetaCache::find(const BundleId& id) const {
  std::lock_guard lock(mutex_);
  auto it = metas_.find(id);
  return it == metas_.end() ? nullptr : it->second;
}

void MetaCache::add(const BundleId& id, std::shared_ptr<const BundleMeta> meta) {
  std::lock_guard lock(mutex_);
  if (metas_.size() >= kMost) metas_.erase(metas_.begin());
  metas_[id] = std::move(meta);
}

Result<SlabFound> fetch_slab(MirrorStore& store, const MirrorNames& names, const SlabWay& way, MetaCache& metas) {
  SlabFound found;
  found.bytes.resize(way.bytes);
  codec::SlabDecoder decoder;
  Bytes plain;
  for (const SlabWay::Step& step : way.steps) {
    P2PW_TRY(auto place, find_frame(store, names, way, step, metas, found.read));
    if (!place) continue;
    P2PW_TRY(Bytes sealed, store.get_range(names.bundle(place->bundle), place->entry.offset, place->entry.length));
    found.read += sealed.size();
    P2PW_CHECK(step.sealer->open(place->index, place->frame, place->entry.slab, sealed, plain));
    P2PW_TRY(codec::Decoded decoded, decoder.decode_in_place(plain, way.dtype, found.bytes));
    if (decoded.digest != place->entry.digest) {
      return fail(ErrorCode::integrity, "the frame of slab " + std::to_string(way.slab) + " in bundle " +
                                            place->bundle.short_hex() + " leads to other bytes than its meta says");
    }
    found.digest = decoded.digest;
    if (way.wanted.contains(found.digest)) return found;
  }
  return fail(ErrorCode::incomplete, "no version in the mirror has slab " + std::to_string(way.slab) + " as it is wanted");
}

}  // namespace p2pw
