"""simulations/lab: real daemons on an emulated WAN. simulations/README.md says how."""
