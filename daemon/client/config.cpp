#include "daemon/client/config.h"
