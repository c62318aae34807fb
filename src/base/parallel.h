#pragma once

#include <cstddef>
#include <functional>

namespace rookery {

// Calls work(0), work(1), …, work(count - 1), each once, on as many threads as there are cores, and returns when all
// are done. Throws what the first of them in order threw, if one did.
void for_all(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace rookery
