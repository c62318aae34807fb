#include "train/run_directory.h"

#include <cstdlib>

#include "base/error.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;

fs::path free_name_beside(const fs::path& root) {
  for (int i = 1;; ++i) {
    fs::path candidate = root;
    candidate += fmt::format(".{}", i);
    if (!fs::exists(candidate)) return candidate;
  }
}

}  // namespace

RunDirectory::RunDirectory(const fs::path& root) : root_(root.lexically_normal()) {
  if (!root_.has_filename()) root_ = root_.parent_path();  // it was written with a slash at the end
  if (root_ == "." || root_ == "..") root_ = fs::weakly_canonical(root_);
}

std::optional<fs::path> RunDirectory::prepare() const try {
  std::optional<fs::path> moved;
  if (fs::exists(root_) && !fs::is_directory(root_)) throw InputError("{}: is not a directory", root_.string());
  if (holds_run()) {
    moved = free_name_beside(root_);
    fs::rename(root_, *moved);
  }
  if (fs::exists(root_) && !fs::is_empty(root_)) {
    throw InputError("{}: holds files that are not a run; choose another directory with --out", root_.string());
  }
  fs::create_directories(root_);
  return moved;
} catch (const fs::filesystem_error& e) {
  throw InputError("{}: cannot prepare the run's directory: {}", root_.string(), e.code().message());
}

RunDirectory open_run(const fs::path& path) {
  const RunDirectory run(path);
  if (!fs::exists(path)) throw InputError("{}: there is no such run", path.string());
  if (!run.holds_run()) throw InputError("{}: is not the directory of a run (it has no run.toml)", path.string());
  return run;
}

std::filesystem::path user_cache() {
  namespace fs = std::filesystem;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return fs::path(cache) / "rookery";
  }
  const char* home = std::getenv("HOME");
  return (home != nullptr ? fs::path(home) / ".cache" : fs::temp_directory_path()) / "rookery";
}

}  // namespace rookery::train
