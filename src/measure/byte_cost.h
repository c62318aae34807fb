#pragma once

namespace rookery::measure {

// Processor seconds of this thread for a byte that goes through a socket to another end, in the memory of this
// computer, and is added to what is there: what the fold of a round does with it. The median of several megabytes'
// worth; takes some 20 ms. Throws Error if there are no sockets to be had.
double byte_cost();

}  // namespace rookery::measure
