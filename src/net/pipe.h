#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/task.h"

namespace rookery::net {

class SharedMemory;

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// What a transport provides, and all that differs between them: an ordered, reliable way for bytes to one peer and
// back, with bounded buffers. Links are built on pipes; pipes wrap pipes (encryption, shaping).
//
// Reading and writing never wait: they do what can be done now, and the waits are apart. So no pipe holds on to a
// caller's memory, and whoever gives up a transfer may free its buffer at once. The exception is memory that both ends
// share: a pipe that can do so lends it to the other end instead of copying from it.
//
// Contract, checked for every pipe by pipe_contract_test.cc:
//  - bytes arrive as they were sent, each once, in order;
//  - one reader and one writer at a time, independent of each other;
//  - after close() at this end every call throws LinkError; the other end reads what was sent before (unless it was
//  lost
//    with the process or the network), then throws;
//  - a wait ends when its condition holds, and when the pipe is closed at either end.
//
// Confined to one executor.
class Pipe {
 public:
  virtual ~Pipe() = default;

  // Takes as many bytes as there is room for, from the first part on. 0: none now.
  virtual std::size_t write(std::span<const ConstBytes> parts) = 0;
  virtual Task<> writable() = 0;  // until write() would take something

  // Copies as many bytes as have arrived. 0: none now.
  virtual std::size_t read(MutableBytes into) = 0;

  // The next bytes that have arrived, at most `limit`, where they lie; empty: none now. Valid until the next call of
  // read, view or skip. They stay unread until skipped.
  virtual ConstBytes view(std::size_t limit) = 0;
  virtual void skip(std::size_t bytes) = 0;  // Requires: at most the size of the last view

  virtual Task<> readable() = 0;  // until read() would give something

  // Shows the other end memory from which it may read what is written, for as long as the pipe lasts. False if this
  // pipe, or this end, has no use for that.
  virtual bool share(std::shared_ptr<const SharedMemory> /*memory*/) { return false; }

  // Whether some of the first `end` bytes that were ever written are lent: then the other end may still read them in
  // the caller's memory.
  virtual bool lends_before(std::uint64_t /*end*/) const { return false; }
  virtual Task<> returned(std::uint64_t end);  // until that is not so, or the pipe has ended

  // Bytes [begin, end) of all that were ever written are not lent any more. If the other end had not read them yet, it
  // never gets them right, and is told so.
  virtual void take_back(std::uint64_t /*begin*/, std::uint64_t /*end*/) {}

  // Whether, of the bytes that were read since the last call, some had been taken back by then.
  virtual bool were_taken_back() { return false; }

  virtual void close() = 0;  // may be called again

  // Where the other end is, without a port, as far as the transport can tell; empty if it cannot.
  virtual std::string remote() const { return {}; }

  // The size of a piece that suits the pipe: large enough to be efficient, small enough to stay in a cache.
  virtual std::size_t piece() const = 0;
};

}  // namespace rookery::net
