#include "net/shm/side_line.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"
#include "net/error.h"

namespace rookery::net::internal {
namespace {

constexpr char kParcel = 'p';
constexpr std::size_t kMaxDescriptors = 4;  // more than are ever sent, so that none comes unseen

// A byte with room for descriptors beside it.
struct Parcel {
  explicit Parcel(std::size_t descriptors) {
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = ancillary.data();
    message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
  }
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;

  // Those that came. They are owned from here on.
  std::vector<Descriptor> descriptors() {
    std::vector<Descriptor> received;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
        received.emplace_back(fd);
      }
    }
    return received;
  }

  char byte = 0;
  iovec vector{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> ancillary{};
  msghdr message{};
};

}  // namespace

bool hand_over(UnixSocket& socket, std::initializer_list<const Descriptor*> descriptors) {
  Parcel parcel(descriptors.size());
  parcel.byte = kParcel;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::size_t offset = 0;
  for (const Descriptor* descriptor : descriptors) {
    const int fd = descriptor->get();
    std::memcpy(CMSG_DATA(header) + offset, &fd, sizeof fd);
    offset += sizeof fd;
  }
  return ::sendmsg(socket.native_handle(), &parcel.message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

std::vector<Descriptor> take_parcel(UnixSocket& socket) {
  Parcel parcel(kMaxDescriptors);
  const ssize_t n = ::recvmsg(socket.native_handle(), &parcel.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (n <= 0) throw LinkError(Failure::kClosed, "", "the connection was closed");
  std::vector<Descriptor> received = parcel.descriptors();
  const bool truncated = (parcel.message.msg_flags & MSG_CTRUNC) != 0;
  if (truncated || received.empty() || parcel.byte != kParcel) {
    throw LinkError(Failure::kProtocol, "", "offered no shared memory");
  }
  return received;
}

Descriptor make_bell() {
  Descriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (bell.get() < 0) throw Error("eventfd failed: {}", std::system_category().message(errno));
  return bell;
}

void check_bell(const Descriptor& bell) {
  std::array<char, 64> target{};
  const std::string link = fmt::format("/proc/self/fd/{}", bell.get());
  const ssize_t n = ::readlink(link.c_str(), target.data(), target.size());
  const std::string_view kind(target.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  const int flags = ::fcntl(bell.get(), F_GETFL);
  if (kind != "anon_inode:[eventfd]" || flags < 0 || (flags & O_NONBLOCK) == 0) {
    throw LinkError(Failure::kProtocol, "", "offered a bell that is none");
  }
}

// The other process could have made it blocking, and full, since: then it is rung already.
void ring(const Descriptor& bell) {
  pollfd ready{.fd = bell.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(bell.get(), &one, sizeof one);
}

void silence(const Descriptor& bell) {
  pollfd ready{.fd = bell.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, 0) != 1) return;
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t n = ::read(bell.get(), &rings, sizeof rings);
}

}  // namespace rookery::net::internal
