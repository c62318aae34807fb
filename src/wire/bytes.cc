#include "wire/bytes.h"

#include <cctype>

namespace rookery::wire {

std::string printable(std::string text) {
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = ' ';
  }
  return text;
}

}  // namespace rookery::wire
