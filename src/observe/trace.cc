#include "observe/trace.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"

namespace rookery::observe {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

using Time = std::chrono::steady_clock::time_point;  // the same on all processes of a computer

}  // namespace

struct Trace::Core {
  Core(const std::filesystem::path& path, std::size_t n) : file(path), number(n) {}

  // A full disk ends the trace, not the run.
  void write(const Json& event) {
    const std::lock_guard lock(mutex);
    try {
      if (!failed) file.write(event.dump() + "\n");
    } catch (const std::exception& error) {
      failed = true;
      spdlog::warn("the trace ends here: {}", error.what());
    }
  }

  std::mutex mutex;
  FileWriter file;
  bool failed = false;
  const std::size_t number;
  std::atomic<std::uint64_t> rows = 0, spans = 0;
};

Trace::Trace(const std::filesystem::path& file, std::size_t number, const std::string& name)
    : core_(std::make_shared<Core>(file, number)) {
  core_->write({{"name", "process_name"}, {"ph", "M"}, {"pid", number}, {"args", {{"name", name}}}});
  core_->write({{"name", "process_sort_index"}, {"ph", "M"}, {"pid", number}, {"args", {{"sort_index", number}}}});
}

BeginSpan Trace::row(const std::string& name) {
  const std::uint64_t row = ++core_->rows;
  core_->write(
      {{"name", "thread_name"}, {"ph", "M"}, {"pid", core_->number}, {"tid", row}, {"args", {{"name", name}}}});
  return [core = core_, row](std::string_view what, std::uint64_t number) -> std::function<void()> {
    const Time begin = std::chrono::steady_clock::now();
    return [core, row, begin, what = std::string(what), number] {
      const Time end = std::chrono::steady_clock::now();
      core->write({{"name", what},
                   {"ph", "X"},
                   {"ts", microseconds(begin.time_since_epoch())},
                   {"dur", microseconds(end - begin)},
                   {"pid", core->number},
                   {"tid", row},
                   {"args", {{"number", number}}}});
    };
  };
}

BeginSpan Trace::rows(const std::string& name) {
  return [core = core_, name](std::string_view what, std::uint64_t number) -> std::function<void()> {
    const Time begin = std::chrono::steady_clock::now();
    return [core, name, begin, what = std::string(what), number] {
      const Time end = std::chrono::steady_clock::now();
      const std::string id = fmt::format("{}.{}", core->number, ++core->spans);
      for (const auto& [phase, time] : {std::pair("b", begin), std::pair("e", end)}) {
        core->write({{"name", what},
                     {"cat", name},
                     {"ph", phase},
                     {"id", id},
                     {"ts", microseconds(time.time_since_epoch())},
                     {"pid", core->number},
                     {"tid", 0},
                     {"args", {{"number", number}}}});
      }
    };
  };
}

void join_traces(std::span<const std::filesystem::path> traces, const std::filesystem::path& file) {
  FileWriter out(file);
  out.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  bool is_first = true;
  for (const std::filesystem::path& path : traces) {
    std::ifstream lines(path);
    for (std::string line; std::getline(lines, line);) {
      if (!Json::accept(line)) continue;  // the last line of a process that was killed
      out.write((is_first ? "" : ",\n") + line);
      is_first = false;
    }
  }
  out.write("\n]}\n");
  out.finish();
}

}  // namespace rookery::observe
