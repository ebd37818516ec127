// The process that runs a swarm for a daemon (swarm_child.h): reads orders from its socket, runs them on a LibtorrentSwarm
// over the bundle files that it was handed, and reports. It enters its sandbox before it listens. What the daemon says is
// believed: it can do no more than the daemon itself.
//
// It never waits for the daemon: reports that do not fit wait here, a few bytes each. It ends when the socket
// does, and when the daemon does.
#pragma once

namespace p2pw {

// `parent`: the daemon's process id. Returns the exit code: 0, the daemon hung up; 1, the daemon cannot be understood;
// 2, there is no daemon.
int swarm_child_main(int parent);

// p2pwd's main() asks first: nothing when the arguments are a daemon's.
bool is_swarm_child(int argc, char** argv, int& parent);

}  // namespace p2pw
