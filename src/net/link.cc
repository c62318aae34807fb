#include "net/link.h"

#include "net/internal/link_core.h"

namespace rookery::net {
namespace {

using internal::ChannelCore;
using internal::LinkCore;

class OpenChannel final : public Channel {
 public:
  OpenChannel(std::shared_ptr<LinkCore> link, std::shared_ptr<ChannelCore> core)
      : link_(std::move(link)), core_(std::move(core)) {}
  ~OpenChannel() override { core_->release(); }

  const ChannelId& id() const override { return core_->id(); }
  const std::string& peer() const override { return link_->peer(); }
  void post(Send& send) override { core_->post(send); }
  void post(Receive& receive) override { core_->post(receive); }
  Task<Message> receive() override { return core_->receive(core_); }
  void close(const LinkError& reason) override { core_->close(reason); }

 private:
  std::shared_ptr<LinkCore> link_;  // outlives the core
  std::shared_ptr<ChannelCore> core_;
};

class OpenLink final : public Link {
 public:
  explicit OpenLink(std::shared_ptr<LinkCore> core) : core_(std::move(core)) {}
  ~OpenLink() override { Link::close(); }

  const std::string& peer() const override { return core_->peer(); }
  using Link::open;
  std::unique_ptr<Channel> open(ChannelId id, std::size_t budget) override {
    return std::make_unique<OpenChannel>(core_, core_->open(id, budget));
  }
  bool share(std::shared_ptr<const SharedMemory> memory) override { return core_->share(std::move(memory)); }
  Task<LinkError> ended() override { return LinkCore::ended(core_); }
  bool has_ended() const override { return core_->has_ended(); }
  void close(const LinkError& reason) override { core_->close(reason); }
  LinkStatistics statistics() const override { return core_->statistics(); }
  Traffic traffic(std::uint16_t purpose) const override { return core_->traffic(purpose); }
  std::size_t piece() const override { return core_->piece(); }

 private:
  std::shared_ptr<LinkCore> core_;
};

}  // namespace

std::unique_ptr<Link> make_link(Clock& clock, std::vector<std::unique_ptr<Pipe>> pipes, LinkOptions options) {
  auto core = std::make_shared<LinkCore>(clock, std::move(pipes), std::move(options));
  core->start();
  return std::make_unique<OpenLink>(std::move(core));
}

}  // namespace rookery::net
