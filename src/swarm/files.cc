#include "swarm/files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <map>
#include <random>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/error.h"
#include "base/file.h"

namespace rookery::swarm {
namespace {

namespace fs = std::filesystem;
using net::Failure;
using net::LinkError;

// One direction each: who gives.
constexpr std::uint16_t kCoordinatorGives = 0x0301, kPeerGives = 0x0302;
constexpr std::uint64_t kPiece = 1 << 20;
constexpr std::size_t kInFlight = 8;

net::ChannelId channel(std::uint16_t purpose) { return {.purpose = purpose}; }

std::uint64_t piece_size(std::uint64_t size, std::uint64_t piece) { return std::min(kPiece, size - piece * kPiece); }

// A piece of a file, which may have changed under our feet.
std::vector<std::byte> read_piece(const fs::path& path, std::uint64_t offset, std::uint64_t size) {
  std::vector<std::byte> bytes(size);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::uint64_t done = 0;
  while (fd >= 0 && done < size) {
    const ssize_t n = ::pread(fd, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::uint64_t>(n);
  }
  if (fd >= 0) ::close(fd);
  if (done < size) throw LinkError(Failure::kClosed, "", fmt::format("cannot read {} any more", path.string()));
  return bytes;
}

}  // namespace

// Lasts as long as somebody may still ask.
struct Files::Shelf {
  struct Entry {
    std::uint64_t size = 0;
    fs::path path;
    std::size_t offers = 0;
  };
  std::map<std::string, Entry> entries;  // by digest
  std::unique_ptr<net::Channel> channel;
};

Files::Files(Executor executor, net::Link& link, End end, Aside aside)
    : shelf_(std::make_shared<Shelf>()), aside_(std::move(aside)) {
  const bool coordinates = end == End::kCoordinator;
  shelf_->channel = link.open(channel(coordinates ? kCoordinatorGives : kPeerGives));
  requests_ = link.open(channel(coordinates ? kPeerGives : kCoordinatorGives));
  boost::asio::co_spawn(executor, serve(shelf_), boost::asio::detached);
}

Files::~Files() { shelf_->channel->close(); }

void Files::offer(const wire::FileFacts& facts, const fs::path& path) {
  Shelf::Entry& entry = shelf_->entries[facts.digest];
  entry.size = facts.size;
  entry.path = path;
  ++entry.offers;
}

void Files::withdraw(const wire::FileFacts& facts) {
  const auto entry = shelf_->entries.find(facts.digest);
  if (entry != shelf_->entries.end() && --entry->second.offers == 0) shelf_->entries.erase(entry);
}

// A request is a digest, and in its tag the number of a piece; the answer is the piece.
Task<> Files::serve(std::shared_ptr<Shelf> shelf) {
  std::optional<LinkError> failure;
  try {
    for (;;) {
      auto receiving = shelf->channel->receive();
      const net::Message request = co_await std::move(receiving);
      const std::string digest(reinterpret_cast<const char*>(request.payload.data()), request.payload.size());
      const auto found = shelf->entries.find(digest);
      if (found == shelf->entries.end()) throw LinkError(Failure::kRefused, "", "does not have the file");
      const Shelf::Entry& entry = found->second;
      const std::uint64_t piece = request.label.tag;
      if (piece > entry.size / kPiece) throw LinkError(Failure::kRefused, "", "the file is not that long");
      const std::vector<std::byte> bytes = read_piece(entry.path, piece * kPiece, piece_size(entry.size, piece));
      auto sending = shelf->channel->send({.tag = piece}, bytes);
      co_await std::move(sending);
    }
  } catch (const LinkError& error) {
    failure = error;
  }
  shelf->channel->close(*failure);
}

Task<> Files::fetch(wire::FileFacts facts, fs::path path, std::function<void(std::uint64_t)> moved) {
  // Others may fetch it, too: processes of this computer, and of others with the same home.
  const fs::path temporary = fmt::format("{}.{:08x}.part", path.string(), std::random_device{}());
  std::exception_ptr failure;
  try {
    fs::create_directories(path.parent_path());
    FileWriter file(temporary);
    struct Piece {
      net::Send request;
      net::Receive answer;
      std::vector<std::byte> bytes;
    };
    std::deque<Piece> pieces;
    const std::uint64_t count = (facts.size + kPiece - 1) / kPiece;
    for (std::uint64_t next = 0, done = 0; done < count; ++done) {
      for (; next < count && pieces.size() < kInFlight; ++next) {
        Piece& piece = pieces.emplace_back();
        piece.bytes.resize(piece_size(facts.size, next));
        piece.answer.into = piece.bytes;
        requests_->post(piece.answer);
        piece.request.label.tag = next;
        piece.request.payload = std::as_bytes(std::span(facts.digest));
        requests_->post(piece.request);
      }
      auto asked = pieces.front().request.finish();
      co_await std::move(asked);
      auto answered = pieces.front().answer.finish();
      co_await std::move(answered);
      file.write(pieces.front().bytes);
      if (moved) moved(pieces.front().bytes.size());
      pieces.pop_front();
    }
    std::string found;
    auto finishing = aside(aside_, [&] {
      file.finish();
      found = digest_of_file(temporary);
    });
    co_await std::move(finishing);
    if (found != facts.digest) {
      throw LinkError(Failure::kProtocol, requests_->peer(), fmt::format("sent {} damaged", facts.name));
    }
    fs::rename(temporary, path);
  } catch (const fs::filesystem_error& error) {
    failure = std::make_exception_ptr(InputError("{}: {}", error.path1().string(), error.code().message()));
  } catch (const Error&) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  std::error_code ignored;
  fs::remove(temporary, ignored);
  std::rethrow_exception(failure);
}

Task<> aside(Aside place, std::function<void()> work) {
  if (!place) {
    work();
    co_return;
  }
  auto working = place(std::move(work));
  co_await std::move(working);
}

wire::FileFacts facts_of(const fs::path& path, const std::string& name) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  if (error) throw InputError("{}: {}", path.string(), error.message());
  return {.name = name, .size = size, .digest = digest_of_file(path)};
}

}  // namespace rookery::swarm
