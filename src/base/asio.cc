// Asio's own code, once for the whole program.
#include <boost/asio/impl/src.hpp>
