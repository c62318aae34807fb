#include "net/memory/memory_pipe.h"

#include <algorithm>

#include "net/internal/delay_line.h"

namespace rookery::net {
namespace {

using internal::DelayLine;

class End final : public MemoryPipe {
 public:
  End(std::shared_ptr<DelayLine> out, std::shared_ptr<DelayLine> in) : out_(std::move(out)), in_(std::move(in)) {}
  ~End() override { End::close(); }

  std::size_t write(std::span<const ConstBytes> parts) override { return out_->write(parts); }
  Task<> writable() override { return out_->writable(); }
  std::size_t read(MutableBytes into) override { return in_->read(into); }
  ConstBytes view(std::size_t limit) override { return in_->view(limit); }
  void skip(std::size_t bytes) override { in_->skip(bytes); }
  Task<> readable() override { return in_->readable(); }
  void close() override {
    out_->close_writer();
    in_->close_reader();
  }
  std::size_t piece() const override {
    constexpr double kUsual = 64 * 1024, kLeast = 1024;
    return static_cast<std::size_t>(std::max(kLeast, kUsual / std::max(1.0, out_->options().scale)));
  }
  void set_cut(bool cut) override { out_->set_cut(cut); }

 private:
  std::shared_ptr<DelayLine> out_, in_;
};

}  // namespace

MemoryPipes make_memory_pipes(Clock& clock, std::shared_ptr<Line> there, std::shared_ptr<Line> back) {
  const auto out = std::make_shared<DelayLine>(clock, std::move(there));
  const auto in = std::make_shared<DelayLine>(clock, std::move(back));
  return {std::make_unique<End>(out, in), std::make_unique<End>(in, out)};
}

MemoryPipes make_memory_pipes(Clock& clock) {
  return make_memory_pipes(clock, std::make_shared<Line>(LineOptions{}, 0), std::make_shared<Line>(LineOptions{}, 0));
}

}  // namespace rookery::net
