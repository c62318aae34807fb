#include "base/log.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include "base/error.h"

namespace rookery {
namespace {

// Keeps the last lines.
class TailSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> after(std::uint64_t& known, std::size_t most) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t first = std::max(known, so_far_ - std::min<std::uint64_t>(lines_.size(), most));
    std::vector<std::string> result;
    for (std::uint64_t i = std::max(first, so_far_ - lines_.size()); i < so_far_; ++i) {
      result.push_back(lines_[i - (so_far_ - lines_.size())]);
    }
    known = so_far_;
    return result;
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    constexpr std::size_t kMost = 64;
    spdlog::memory_buf_t formatted;
    formatter_->format(message, formatted);
    std::string line = fmt::to_string(formatted);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    lines_.push_back(std::move(line));
    ++so_far_;
    if (lines_.size() > kMost) lines_.pop_front();
  }

  void flush_() override {}

 private:
  std::deque<std::string> lines_;
  std::uint64_t so_far_ = 0;
};

std::shared_ptr<TailSink> tail;  // of the process, once it logs

spdlog::sink_ptr stderr_sink() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_level(spdlog::level::warn);
  sink->set_pattern("%^%l%$: %v");
  return sink;
}

void install(std::vector<spdlog::sink_ptr> sinks) {
  tail = std::make_shared<TailSink>();
  tail->set_pattern("%H:%M:%S %L %v");
  sinks.push_back(tail);
  auto logger = std::make_shared<spdlog::logger>("rookery", sinks.begin(), sinks.end());
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace

std::vector<std::string> log_lines_after(std::uint64_t& known, std::size_t most) {
  return tail ? tail->after(known, most) : std::vector<std::string>();
}

void log_to_stderr() { install({stderr_sink()}); }

void log_to(const std::filesystem::path& file, LogTo where) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %L %v");
    std::vector<spdlog::sink_ptr> sinks = {std::move(sink)};
    if (where == LogTo::kFileAndStderr) sinks.push_back(stderr_sink());
    install(std::move(sinks));
  } catch (const spdlog::spdlog_ex& e) {
    throw InputError("{}: cannot write the log: {}", file.string(), e.what());
  }
}

}  // namespace rookery
