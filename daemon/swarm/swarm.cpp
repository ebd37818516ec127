#include "daemon/swarm/swarm.h"
