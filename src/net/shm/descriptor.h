#pragma once

namespace rookery::net::internal {

// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;

  int get() const { return fd_; }
  int release();

 private:
  int fd_ = -1;
};

}  // namespace rookery::net::internal
