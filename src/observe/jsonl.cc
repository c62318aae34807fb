#include "observe/jsonl.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace rookery::observe {
namespace {

// The step that a line is about. Throws InputError naming the line if it is none of ours.
std::int64_t step_of(std::string_view line, const std::filesystem::path& path, std::int64_t number) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (object.is_object()) {
    const auto step = object.find("step");
    if (step != object.end() && step->is_number_integer()) return step->get<std::int64_t>();
  }
  throw InputError("{}:{}: is not a line of metrics (a JSON object with a whole number as \"step\")", path.string(),
                   number);
}

// Where the first line about a step after `step` begins, or the torn last line, or the end.
std::size_t kept_bytes(std::string_view text, std::int64_t step, const std::filesystem::path& path) {
  std::size_t begin = 0;
  for (std::int64_t number = 1;; ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) return begin;
    if (step_of(text.substr(begin, end - begin), path, number) > step) return begin;
    begin = end + 1;
  }
}

}  // namespace

JsonlSink::JsonlSink(const std::filesystem::path& path) : file_(path, FileWriter::Mode::kAppend) {}

void JsonlSink::step(const StepMetrics& metrics) { file_.write(to_json(metrics).dump() + '\n'); }

void JsonlSink::finish(const Summary&) { file_.finish(); }

void truncate_after(const std::filesystem::path& path, std::int64_t step) {
  if (!std::filesystem::exists(path)) return;
  std::size_t kept = 0, size = 0;
  {
    const MappedFile file(path);
    size = file.bytes().size();
    kept = kept_bytes({reinterpret_cast<const char*>(file.bytes().data()), size}, step, path);
  }
  if (kept < size && ::truncate(path.c_str(), static_cast<off_t>(kept)) != 0) {
    throw InputError("{}: cannot cut off what comes after step {}: {}", path.string(), step, std::strerror(errno));
  }
}

}  // namespace rookery::observe
