#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/task.h"
#include "dashboard/site.h"
#include "dashboard/view.h"

namespace rookery::dashboard {

struct DashboardOptions {
  std::string listen = "127.0.0.1:0";          // HOST:PORT
  std::string certificate_file{}, key_file{};  // in PEM; beyond this computer, one is made up if there is none
  // By which hosts others reach whoever listens on this one, 0.0.0.0 or ::. Left out: it is not known.
  std::function<std::vector<std::string>(const std::string& host)> dialable{};
  std::filesystem::path entrance_file{};  // where it is kept how this one is found; left out: nowhere
  RunView run{};
};

// What a run shows to those who look on: a page for browsers, an API for programs, on a thread of its own, so that
// whoever trains or coordinates does nothing for it but say what happens. Thread-safe.
class Dashboard {
 public:
  // Calls `obey` on its own thread, for somebody who may: one sentence if it cannot be done now. Throws InputError if
  // it cannot listen there.
  Dashboard(DashboardOptions options, Site::Obey obey);
  ~Dashboard();  // those who look on learn the last that was said
  Dashboard(const Dashboard&) = delete;
  Dashboard& operator=(const Dashboard&) = delete;

  // Where it is, with the token: for whoever may do everything. Others may reach it by several addresses; the best one
  // is first.
  const std::string& url() const { return urls_.front(); }
  const std::vector<std::string>& urls() const { return urls_; }

  // Of the certificate, if it is encrypted; for people to compare.
  const std::string& fingerprint() const { return fingerprint_; }

  // Something has happened, at these seconds.
  void show(std::function<void(View& view, double seconds)> change);

  // What brief_of() says, as JSON. Awaited on any executor.
  Task<std::string> brief();

  double seconds() const;  // of its clock

 private:
  struct Core;
  std::unique_ptr<Core> core_;
  std::vector<std::string> urls_;
  std::string fingerprint_;
};

}  // namespace rookery::dashboard
