#include "base/file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <openssl/evp.h>

#include "base/error.h"

namespace rookery {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, std::string_view action, int error = errno) {
  throw InputError("{}: cannot {}: {}", path.string(), action, std::strerror(error));
}

// Closes a descriptor when its scope ends.
struct Descriptor {
  int fd;
  ~Descriptor() { ::close(fd); }
};

Descriptor open_regular(const std::filesystem::path& path, struct stat& status) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(path, "open");
  Descriptor file{fd};
  if (::fstat(fd, &status) != 0) fail(path, "read");
  if (!S_ISREG(status.st_mode)) throw InputError("{}: is not a regular file", path.string());
  return Descriptor{std::exchange(file.fd, -1)};
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    ROOKERY_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1);
  }
  ~Sha256() { EVP_MD_CTX_free(context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::span<const std::byte> bytes) {
    ROOKERY_CHECK(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
  }

  // Requires: nothing is added afterwards.
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
    unsigned length = 0;
    ROOKERY_CHECK(EVP_DigestFinal_ex(context_, hash.data(), &length) == 1);
    std::string text;
    for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", hash[i]);
    return text;
  }

 private:
  EVP_MD_CTX* context_;
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  struct stat status {};
  const Descriptor file = open_regular(path, status);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) fail(path, "map");
  bytes_ = {static_cast<const std::byte*>(data), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string read_file(const std::filesystem::path& path, Bytes limit) {
  struct stat status {};
  const Descriptor file = open_regular(path, status);
  if (status.st_size > limit) throw InputError("{}: is larger than {}", path.string(), format_bytes(limit));
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::read(file.fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "read");
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  content.resize(done);
  return content;
}

FileWriter::FileWriter(const std::filesystem::path& path, Mode mode, unsigned permissions)
    : path_(path),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::kAppend ? O_APPEND : O_TRUNC),
                 permissions)) {
  if (fd_ < 0) fail(path, "write");
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void FileWriter::finish() {
  // EINVAL: a pipe or a terminal, which has nothing to write through.
  if (::fsync(fd_) != 0 && errno != EINVAL) fail(path_, "write");
  if (::close(std::exchange(fd_, -1)) != 0) fail(path_, "write");
}

NamelessFile::NamelessFile(const std::filesystem::path& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) throw InputError("{}: cannot be read: {}", path.string(), std::strerror(errno));
  ::unlink(path.c_str());
}

NamelessFile::~NamelessFile() { ::close(fd_); }

std::filesystem::path NamelessFile::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

namespace {

void replace(const std::filesystem::path& path, std::string_view content, unsigned permissions) {
  std::filesystem::path temporary = path;
  temporary += ".tmp";
  try {
    FileWriter file(temporary, FileWriter::Mode::kReplace, permissions);
    file.write(content);
    file.finish();
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail(path, "replace", error);
  }
  make_durable(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace

void replace_file(const std::filesystem::path& path, std::string_view content) { replace(path, content, 0644); }

void replace_private_file(const std::filesystem::path& path, std::string_view content) {
  ::unlink((path.string() + ".tmp").c_str());  // one that was left may be for others to read
  replace(path, content, 0600);
}

FileLock::FileLock(const std::filesystem::path& path, std::chrono::milliseconds patience)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  constexpr std::chrono::milliseconds kLookAgain(10);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (fd_ >= 0 && !held_) {
    held_ = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
    if (held_ || std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(kLookAgain);
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

void make_durable(const std::filesystem::path& file_or_directory) {
  const Descriptor opened{::open(file_or_directory.c_str(), O_RDONLY | O_CLOEXEC)};
  if (opened.fd < 0) fail(file_or_directory, "open");
  if (::fsync(opened.fd) != 0 && errno != EINVAL) fail(file_or_directory, "write");  // EINVAL: cannot be synced
}

std::string digest(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.add(bytes);
  return sha.hex();
}

std::string digest_of_file(const std::filesystem::path& path) {
  struct stat status {};
  const Descriptor file = open_regular(path, status);
  Sha256 sha;
  std::vector<std::byte> piece(1 << 20);
  while (true) {
    const ssize_t n = ::read(file.fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "read");
    if (n == 0) return sha.hex();
    sha.add(std::span(piece).first(static_cast<std::size_t>(n)));
  }
}

}  // namespace rookery
