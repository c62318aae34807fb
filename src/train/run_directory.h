#pragma once

#include <filesystem>
#include <optional>

namespace rookery::train {

// The folder that holds everything about one run.
class RunDirectory {
 public:
  explicit RunDirectory(const std::filesystem::path& root);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path settings() const { return root_ / "run.toml"; }
  std::filesystem::path metrics() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path summary() const { return root_ / "summary.json"; }
  std::filesystem::path events() const { return root_ / "events.jsonl"; }
  std::filesystem::path ledger() const { return root_ / "ledger.json"; }
  std::filesystem::path measured_peers() const { return root_ / "peers.toml"; }
  std::filesystem::path dashboard() const { return root_ / "dashboard.json"; }  // how its dashboard is found again
  std::filesystem::path peers() const { return root_ / "peers"; }
  std::filesystem::path peer_trace(const std::string& name) const { return peers() / (name + ".trace"); }
  std::filesystem::path trace() const { return root_ / "trace.json"; }
  std::filesystem::path log() const { return root_ / "log.txt"; }
  std::filesystem::path tensorboard() const { return root_ / "tensorboard"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path coordinator() const { return root_ / "coordinator"; }
  std::filesystem::path incoming() const { return root_ / ".incoming"; }  // checkpoints on their way

  // Whether a run was started here.
  bool holds_run() const { return std::filesystem::exists(settings()); }

  // Creates the folder for a new run. An earlier run in it is moved aside, whole, to ROOT.1, ROOT.2, …; returns where.
  // Throws InputError if the folder cannot be made, or holds something that is no run.
  std::optional<std::filesystem::path> prepare() const;

 private:
  std::filesystem::path root_;
};

// Where this user keeps what can be made again: data that was fetched, and what was measured.
std::filesystem::path user_cache();

// A run for reading. Throws InputError if `path` is no run directory.
RunDirectory open_run(const std::filesystem::path& path);

}  // namespace rookery::train
