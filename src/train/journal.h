#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/file.h"
#include "net/identity.h"
#include "swarm/coordinator.h"
#include "wire/ticket.h"

namespace rookery::train {

// What a coordinator keeps so that another one can take up its run when it has ended, however it did: who it is, where
// it listened, and the newest plan. In a folder of the run, which one coordinator has at a time.
class Journal {
 public:
  // Throws InputError if another coordinator has it, or there cannot be such a folder.
  explicit Journal(const std::filesystem::path& folder);

  // Who the coordinator is; nothing if nobody was here before. Throws InputError if the key cannot be used.
  std::optional<net::Identity> identity() const;
  void keep(const net::Identity& identity) const;

  struct Entry {
    swarm::Memory memory;
    std::string listen;  // HOST:PORT
  };

  // Replaces the one before, as a whole, and for good when this returns. Throws InputError if it cannot.
  void keep(const Entry& entry) const;

  // There is no plan yet, or no more.
  void forget() const;

  // Nothing if there was never a plan. Throws InputError naming the file if it holds something else.
  std::optional<Entry> last() const;

 private:
  std::filesystem::path key_, entry_;
  FileLock lock_;
};

// What guests of this coordinator prove to know: the same for as long as it has the same key, without which nobody can
// tell it.
wire::Ticket ticket_of(const net::Identity& identity);

}  // namespace rookery::train
