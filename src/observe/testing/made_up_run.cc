#include "observe/testing/made_up_run.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "observe/metrics.h"

namespace rookery::observe {

MadeUpRuns::MadeUpRuns() {
  std::string pattern = std::filesystem::temp_directory_path() / "rookery-report-XXXXXX";
  folder_ = ::mkdtemp(pattern.data());
}

MadeUpRuns::~MadeUpRuns() { std::filesystem::remove_all(folder_); }

void MadeUpRuns::write(const std::string& run, const std::string& file, const std::string& text) const {
  const std::filesystem::path path = folder_ / run / file;
  std::filesystem::create_directories(path.parent_path());
  replace_file(path, text);
}

std::string MadeUpRuns::steps(int first, int last) {
  std::string lines;
  for (int step = first; step <= last; ++step) {
    StepMetrics metrics{.step = step,
                        .loss = 1.0 / step,
                        .seconds = 0.5 * step,
                        .step_seconds = 0.4,
                        .samples = 16 * step,
                        .tokens = 1000 * step};
    metrics.together = {.compute_seconds = 0.25, .wait_seconds = 0.125, .bytes_sent = 100, .bytes_received = 90};
    lines += to_json(metrics).dump() + '\n';
  }
  return lines;
}

}  // namespace rookery::observe
