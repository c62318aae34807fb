#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/file.h"
#include "observe/metrics.h"

namespace rookery::observe {

// Writes scalars that TensorBoard can show: loss, lr, grad_norm, tokens_per_second, eval_loss, eval_accuracy.
//
// The file is a sequence of records (length, its checksum, content, its checksum), each a protobuf message
// tensorflow.Event; there are so few fields that they are encoded by hand.
class TensorBoardSink : public Sink {
 public:
  using WallTime = std::chrono::system_clock::time_point;

  struct Options {
    // Steps done before this process started. TensorBoard then hides what earlier files have after them.
    std::int64_t first_step = 0;
    std::function<WallTime()> now = [] { return std::chrono::system_clock::now(); };
  };

  // Creates `directory`, and in it a new file events.out.tfevents.<time>.<host>.<pid>. Throws InputError if it cannot.
  explicit TensorBoardSink(const std::filesystem::path& directory, Options options);
  explicit TensorBoardSink(const std::filesystem::path& directory) : TensorBoardSink(directory, Options{}) {}

  void step(const StepMetrics& metrics) override;
  void finish(const Summary& summary) override;

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_event(std::string_view fields);  // with the time added

  Options options_;
  std::filesystem::path path_;
  FileWriter file_;
  std::optional<std::int64_t> last_tokens_;  // none: a resumed run before its first step
};

// CRC-32C (Castagnoli), as in iSCSI.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace rookery::observe
