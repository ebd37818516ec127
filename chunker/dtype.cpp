#include "chunker/dtype.h"
