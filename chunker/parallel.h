// A loop over slabs on several threads.
#pragma once

#include <functional>

#include "protocol/result.h"

namespace p2pw {

// What the machine offers; at least 1.
unsigned default_threads();

// Calls work(worker, index) once for each index below `count`, in rising order, from min(threads, count) threads; worker
// numbers them from 0, for scratch memory. Stops taking indices after the first error and returns the one with the
// lowest index. An exception in `work` becomes ErrorCode::failed.
Status parallel_for(unsigned threads, std::size_t count,
                    const std::function<Status(unsigned worker, std::size_t index)>& work);

// Runs `body` and turns what it throws (memory, mostly) into an error.
Status without_exceptions(const std::function<Status()>& body);

}  // namespace p2pw
