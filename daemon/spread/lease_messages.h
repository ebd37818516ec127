// What is said of leases by more than one side of spreading.
#pragma once

#include "protocol/lease.h"
#include "protocol/links.pb.h"

namespace p2pw {

// From an upstream: this is who has the lease.
inline wire::LinkMessage refuse_message(const BundleId& bundle, const Lease& lease) {
  wire::LinkMessage m;
  auto* refuse = m.mutable_lease_refuse();
  refuse->set_bundle(std::string(bundle.text()));
  refuse->set_holder(std::string(lease.holder.text()));
  refuse->set_epoch(lease.epoch.value());
  return m;
}

// From an upstream: it does not hold the bundle, or no longer.
inline wire::LinkMessage unknown_message(const BundleId& bundle) {
  wire::LinkMessage m;
  m.mutable_lease_refuse()->set_bundle(std::string(bundle.text()));
  m.mutable_lease_refuse()->set_unknown(true);
  return m;
}

// From a region, of an offer, or to whoever feeds it: another one serves it. `unwanted`: this node has no use for the bundle.
inline wire::LinkMessage decline_message(const BundleId& bundle, const Lease& served_by, bool unwanted) {
  wire::LinkMessage m = refuse_message(bundle, served_by);
  m.mutable_lease_refuse()->set_served(true);
  m.mutable_lease_refuse()->set_unwanted(unwanted);
  return m;
}

}  // namespace p2pw
