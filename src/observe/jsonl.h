#pragma once

#include <cstdint>
#include <filesystem>

#include "base/file.h"
#include "observe/metrics.h"

namespace rookery::observe {

// Appends a line per step to metrics.jsonl, each with a single write, so that a reader never sees half a line unless
// the disk is full or the process died in it. Every method throws InputError naming the file when it cannot be written.
class JsonlSink : public Sink {
 public:
  // Creates the file if there is none. Requires: the file is empty or ends with a whole line (truncate_after).
  explicit JsonlSink(const std::filesystem::path& path);

  void step(const StepMetrics& metrics) override;
  void finish(const Summary& summary) override;

 private:
  FileWriter file_;
};

// Cuts off what a resumed run will write again: all lines from the first with a step after `step` on, and a torn last
// line. The file is cut in place; a missing file is fine. Throws InputError naming file and line when a line before
// the cut is not an object with a whole number as `step`.
void truncate_after(const std::filesystem::path& path, std::int64_t step);

}  // namespace rookery::observe
