#include "net/virtual/virtual_network.h"

#include <algorithm>
#include <deque>

#include "base/signal.h"
#include "net/error.h"

namespace rookery::net {

// The network keeps an eye on its pipes, which belong to whoever uses them.
class VirtualNetwork::TrackedPipe final : public Pipe {
 public:
  TrackedPipe(std::shared_ptr<MemoryPipe> pipe, std::string remote)
      : pipe_(std::move(pipe)), remote_(std::move(remote)) {}
  ~TrackedPipe() override { pipe_->close(); }

  std::size_t write(std::span<const ConstBytes> parts) override { return pipe_->write(parts); }
  Task<> writable() override { return pipe_->writable(); }
  std::size_t read(MutableBytes into) override { return pipe_->read(into); }
  ConstBytes view(std::size_t limit) override { return pipe_->view(limit); }
  void skip(std::size_t bytes) override { pipe_->skip(bytes); }
  Task<> readable() override { return pipe_->readable(); }
  void close() override { pipe_->close(); }
  std::string remote() const override { return remote_; }
  std::size_t piece() const override { return pipe_->piece(); }

 private:
  std::shared_ptr<MemoryPipe> pipe_;
  std::string remote_;
};

class VirtualNetwork::HostListener final : public Listener {
 public:
  HostListener(VirtualNetwork& network, std::string host) : network_(network), host_(std::move(host)) {
    if (!network_.listeners_.emplace(host_, this).second) throw InputError("cannot listen on {}: in use", host_);
  }
  ~HostListener() override { HostListener::close(); }

  Task<std::unique_ptr<Pipe>> accept() override {
    while (waiting_.empty() && !closed_) {
      auto wait = changed_.wait();
      co_await std::move(wait);
    }
    if (closed_) throw LinkError(Failure::kClosed, host_, "does not listen any more");
    auto pipe = std::move(waiting_.front());
    waiting_.pop_front();
    co_return pipe;
  }

  const std::string& address() const override { return host_; }

  void close() override {
    if (closed_) return;
    closed_ = true;
    waiting_.clear();
    network_.listeners_.erase(host_);
    changed_.notify();
  }

  // False if too many wait already.
  bool deliver(std::unique_ptr<Pipe> pipe) {
    constexpr std::size_t kBacklog = 128;
    if (waiting_.size() >= kBacklog) return false;
    waiting_.push_back(std::move(pipe));
    changed_.notify();
    return true;
  }

 private:
  VirtualNetwork& network_;
  std::string host_;
  std::deque<std::unique_ptr<Pipe>> waiting_;
  bool closed_ = false;
  Signal changed_;
};

class VirtualNetwork::HostTransport final : public Transport {
 public:
  HostTransport(VirtualNetwork& network, std::string host) : network_(network), host_(std::move(host)) {}

  std::unique_ptr<Listener> listen(const std::string&) override {
    return std::make_unique<HostListener>(network_, host_);
  }

  // A round trip, as with TCP; packets that are cut off are tried again until the deadline.
  Task<std::unique_ptr<Pipe>> dial(std::string address, Time deadline) override {
    const std::string to = address.substr(0, address.find(':'));
    Clock& clock = network_.clock_;
    const Duration retry = std::chrono::seconds(1);
    while (network_.is_cut(host_, to) || network_.is_cut(to, host_)) {
      if (clock.now() + retry >= deadline) break;
      co_await clock.sleep_for(retry);
    }
    const auto there = network_.make_line(host_, to), back = network_.make_line(to, host_);
    const Time answered = back->send(there->send(clock.now(), 1).arrival, 1).arrival;
    co_await clock.sleep_until(std::min(answered, deadline));
    if (answered >= deadline || network_.is_cut(host_, to) || network_.is_cut(to, host_)) {
      throw LinkError(Failure::kUnreachable, to, "does not answer");
    }
    co_return network_.connect(host_, to);
  }

 private:
  VirtualNetwork& network_;
  std::string host_;
};

void VirtualNetwork::set_line(const std::string& from, const std::string& to, const LineOptions& options) {
  special_lines_[{from, to}] = options;
}

std::unique_ptr<Transport> VirtualNetwork::transport(const std::string& host) {
  return std::make_unique<HostTransport>(*this, host);
}

bool VirtualNetwork::is_cut(const std::string& from, const std::string& to) const {
  return cuts_.contains({from, to}) || frozen_.contains(from) || frozen_.contains(to);
}

void VirtualNetwork::apply_cuts() {
  std::erase_if(connections_, [](const Connection& c) { return c.from_end.expired() && c.to_end.expired(); });
  for (const Connection& c : connections_) {
    if (const auto end = c.from_end.lock()) end->set_cut(is_cut(c.from, c.to));
    if (const auto end = c.to_end.lock()) end->set_cut(is_cut(c.to, c.from));
  }
}

void VirtualNetwork::cut(const std::string& from, const std::string& to, bool is_cut) {
  is_cut ? void(cuts_.insert({from, to})) : void(cuts_.erase({from, to}));
  apply_cuts();
}

void VirtualNetwork::freeze(const std::string& host, bool frozen) {
  frozen ? void(frozen_.insert(host)) : void(frozen_.erase(host));
  apply_cuts();
}

void VirtualNetwork::crash(const std::string& host, bool crashed) {
  if (!crashed) return void(crashed_.erase(host));
  crashed_.insert(host);
  for (const Connection& c : connections_) {
    const auto end = c.from == host ? c.from_end.lock() : c.to == host ? c.to_end.lock() : nullptr;
    if (end) end->close();
  }
}

std::shared_ptr<Line> VirtualNetwork::make_line(const std::string& from, const std::string& to) {
  const auto special = special_lines_.find({from, to});
  return std::make_shared<Line>(special == special_lines_.end() ? lines_ : special->second, seed_ + lines_made_++);
}

std::unique_ptr<Pipe> VirtualNetwork::connect(const std::string& from, const std::string& to) {
  const auto listener = listeners_.find(to);
  if (listener == listeners_.end() || crashed_.contains(to) || crashed_.contains(from)) {
    throw LinkError(Failure::kUnreachable, to, "nobody listens there");
  }
  auto [a, b] = make_memory_pipes(clock_, make_line(from, to), make_line(to, from));
  const std::shared_ptr<MemoryPipe> from_end = std::move(a), to_end = std::move(b);
  connections_.push_back({from, to, from_end, to_end});
  if (!listener->second->deliver(std::make_unique<TrackedPipe>(to_end, from))) {
    throw LinkError(Failure::kUnreachable, to, "has too many waiting already");
  }
  apply_cuts();
  return std::make_unique<TrackedPipe>(from_end, to);
}

}  // namespace rookery::net
