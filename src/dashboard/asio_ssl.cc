// Asio's own code for TLS, once for the whole program; base has the rest.
#include <boost/asio/ssl/impl/src.hpp>
