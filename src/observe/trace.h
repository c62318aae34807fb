#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/span.h"

namespace rookery::observe {

// What a peer does and when, in Chrome's trace format: chrome://tracing and ui.perfetto.dev show it. Each event is
// written to a file as it ends; join_traces() makes one picture of all peers of a computer. Thread-safe.
class Trace {
 public:
  // `number` orders the peers in the picture.
  Trace(const std::filesystem::path& file, std::size_t number, const std::string& name);

  // Spans of a row, such as "compute", one after another or within each other.
  BeginSpan row(const std::string& name);

  // Spans that overlap, such as "send": a row for each.
  BeginSpan rows(const std::string& name);

 private:
  struct Core;
  std::shared_ptr<Core> core_;  // spans may end after this has gone
};

// Throws InputError if a file cannot be read or written. Traces that are missing are left out.
void join_traces(std::span<const std::filesystem::path> traces, const std::filesystem::path& file);

}  // namespace rookery::observe
