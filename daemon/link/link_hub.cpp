#include "daemon/link/link_hub.h"
