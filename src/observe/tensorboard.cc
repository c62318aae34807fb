#include "observe/tensorboard.h"

#include <array>
#include <bit>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace rookery::observe {
namespace {

// Protobuf: a field is (number << 3 | wire type) and its content; integers are little-endian groups of seven bits.
enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// tensorflow/core/util/event.proto and framework/summary.proto: the fields that we write.
enum Event : std::uint64_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SessionLog : std::uint64_t { kStatus = 1 };
enum SummaryField : std::uint64_t { kValue = 1 };
enum SummaryValue : std::uint64_t { kTag = 1, kSimpleValue = 2 };
constexpr std::uint64_t kSessionStart = 1;

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

template <typename Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::string key(std::uint64_t field, WireType type) { return varint(field << 3 | type); }
std::string varint_field(std::uint64_t field, std::uint64_t value) { return key(field, kVarint) + varint(value); }
std::string double_field(std::uint64_t field, double value) {
  return key(field, kFixed64) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(std::uint64_t field, float value) {
  return key(field, kFixed32) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string bytes_field(std::uint64_t field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

std::string scalar(std::string_view tag, double value) {
  return bytes_field(kValue, bytes_field(kTag, tag) + float_field(kSimpleValue, static_cast<float>(value)));
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t kCastagnoliReversed = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? kCastagnoliReversed : 0);
  }
  return table;
}

// TFRecord stores checksums rotated and shifted, so that a checksum over data with checksums in it stays meaningful.
std::string masked_checksum(std::string_view bytes) {
  return little_endian(std::rotr(crc32c(std::as_bytes(std::span(bytes))), 15) + 0xA282EAD8u);
}

std::string record(std::string_view content) {
  const std::string length = little_endian(std::uint64_t{content.size()});
  return length + masked_checksum(length) + std::string(content) + masked_checksum(content);
}

std::filesystem::path new_file_in(const std::filesystem::path& directory, TensorBoardSink::WallTime now) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw InputError("{}: cannot create the directory: {}", directory.string(), error.message());
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  return directory / fmt::format("events.out.tfevents.{}.{}.{}", seconds, host.data(), ::getpid());
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const std::byte byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xFF];
  return ~crc;
}

TensorBoardSink::TensorBoardSink(const std::filesystem::path& directory, Options options)
    : options_(std::move(options)), path_(new_file_in(directory, options_.now())), file_(path_) {
  write_event(bytes_field(kFileVersion, "brain.Event:2"));
  if (options_.first_step == 0) {
    last_tokens_ = 0;
  } else {
    const auto step = static_cast<std::uint64_t>(options_.first_step + 1);
    write_event(varint_field(kStep, step) + bytes_field(kSessionLog, varint_field(kStatus, kSessionStart)));
  }
}

void TensorBoardSink::step(const StepMetrics& metrics) {
  std::string values = scalar("loss", metrics.loss) + scalar("lr", metrics.lr) + scalar("grad_norm", metrics.grad_norm);
  if (last_tokens_ && metrics.step_seconds > 0) {
    values += scalar("tokens_per_second", static_cast<double>(metrics.tokens - *last_tokens_) / metrics.step_seconds);
  }
  if (metrics.eval_loss) values += scalar("eval_loss", *metrics.eval_loss);
  if (metrics.eval_accuracy) values += scalar("eval_accuracy", *metrics.eval_accuracy);
  last_tokens_ = metrics.tokens;
  write_event(varint_field(kStep, static_cast<std::uint64_t>(metrics.step)) + bytes_field(kSummary, values));
}

void TensorBoardSink::finish(const Summary&) { file_.finish(); }

void TensorBoardSink::write_event(std::string_view fields) {
  const double wall_seconds = std::chrono::duration<double>(options_.now().time_since_epoch()).count();
  file_.write(record(double_field(kWallTime, wall_seconds) + std::string(fields)));
}

}  // namespace rookery::observe
