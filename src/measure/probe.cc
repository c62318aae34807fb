#include "measure/probe.h"

#include <algorithm>
#include <vector>

#include <spdlog/spdlog.h>

#include "measure/internal/deadline.h"
#include "measure/stream.h"
#include "net/tcp/route.h"
#include "wire/bytes.h"

namespace rookery::measure {
namespace {

using net::Failure;
using net::LinkError;

constexpr net::ChannelId kChannel{.purpose = 0x0100};
constexpr std::size_t kPiece = 64 * 1024;
constexpr std::size_t kMaxTransfer = 16 << 20;
constexpr Duration kEnough = std::chrono::milliseconds(300);
constexpr int kEchoes = 15;

enum Question : std::uint32_t {
  kDate = 1,      // answered by the same with the date in the tag
  kEcho = 2,      // answered by the same
  kUpload = 3,    // tag: how many bytes follow
  kDownload = 4,  // tag: how many bytes should come
  kDialBack = 5,  // tag: the port; answered by the same with tag 1, or with tag 0 and why not
};

std::size_t checked_transfer(std::uint64_t bytes) {
  if (bytes == 0 || bytes > kMaxTransfer) {
    throw LinkError(Failure::kProtocol, "", fmt::format("wants to transfer {} bytes for a probe", bytes));
  }
  return bytes;
}

Task<std::string> try_to_dial(net::Host& host, const net::Guest& guest, std::uint64_t port) {
  if (guest.address.empty() || port == 0 || port > 65535) co_return "there is no address to dial";
  try {
    const std::string address = net::join_host_port(guest.address, static_cast<unsigned>(port));
    auto dialling = host.dial(address, guest.key);
    const net::Meeting meeting = co_await std::move(dialling);
    co_return "";
  } catch (const LinkError& error) {
    co_return std::string(error.text());
  }
}

}  // namespace

Task<> answer_probes(Clock& clock, net::Host& host, std::shared_ptr<net::Link> link, net::Guest guest) {
  try {
    const auto channel = link->open(kChannel);
    for (;;) {
      auto receiving = channel->receive();
      const net::Message question = co_await std::move(receiving);
      net::Label answer = question.label;
      std::string text;
      if (answer.type == kDate) {
        answer.tag = static_cast<std::uint64_t>(clock.date().time_since_epoch().count());
      } else if (answer.type == kUpload) {
        std::vector<std::byte> bytes(checked_transfer(answer.tag));
        auto transfer = receive_stream(*channel, bytes, kPiece);
        co_await std::move(transfer);
        continue;
      } else if (answer.type == kDownload) {
        const std::vector<std::byte> bytes(checked_transfer(answer.tag));
        auto transfer = send_stream(*channel, bytes, kPiece);
        co_await std::move(transfer);
        continue;
      } else if (answer.type == kDialBack) {
        auto trying = try_to_dial(host, guest, answer.tag);
        text = co_await std::move(trying);
        answer.tag = text.empty() ? 1 : 0;
      } else if (answer.type != kEcho) {
        throw LinkError(Failure::kProtocol, "", "asks what nobody understands");
      }
      auto answering = channel->send(answer, std::as_bytes(std::span(text)));
      co_await std::move(answering);
    }
  } catch (const LinkError& error) {
    if (error.failure() == Failure::kProtocol) {
      spdlog::warn("{} {}", guest.name, error.text());
      link->close(error);
    }
  }
  auto ended = link->ended();
  co_await std::move(ended);
}

Prober::Prober(Clock& clock, net::Link& link, Duration patience)
    : clock_(clock), link_(link), patience_(patience), channel_(link.open(kChannel)) {}

Task<net::Message> Prober::ask(net::Label question) {
  const Deadline deadline(clock_, link_, patience_);
  auto asking = channel_->send(question);
  co_await std::move(asking);
  auto hearing = channel_->receive();
  net::Message answer = co_await std::move(hearing);
  if (answer.label.type != question.type) throw LinkError(Failure::kProtocol, link_.peer(), "answers something else");
  co_return answer;
}

Task<std::chrono::seconds> Prober::date_difference() {
  auto asking = ask({.type = kDate});
  const net::Message answer = co_await std::move(asking);
  const auto theirs = std::min<std::uint64_t>(answer.label.tag, std::uint64_t{1} << 40);  // far beyond any date
  co_return std::chrono::seconds(static_cast<std::int64_t>(theirs)) - clock_.date().time_since_epoch();
}

Task<Prober::RoundTrip> Prober::round_trip() {
  std::vector<Duration> took;
  for (int i = 0; i < kEchoes; ++i) {
    const Time start = clock_.now();
    auto asking = ask({.type = kEcho});
    co_await std::move(asking);
    took.push_back(clock_.now() - start);
  }
  std::ranges::sort(took);
  co_return RoundTrip{.median = took[took.size() / 2], .worst = took.back()};
}

Task<BitsPerSecond> Prober::upload(Duration round_trip) { return transfer(kUpload, round_trip); }
Task<BitsPerSecond> Prober::download(Duration round_trip) { return transfer(kDownload, round_trip); }

// Twice as much again and again, so that a slow link is not kept busy for long. What the answer takes is not counted.
Task<BitsPerSecond> Prober::transfer(std::uint32_t question, Duration round_trip) {
  for (std::size_t size = kPiece;; size *= 2) {
    const Deadline deadline(clock_, link_, patience_);
    std::vector<std::byte> bytes(size);
    const Time start = clock_.now();
    auto asking = channel_->send({.type = question, .tag = size});
    co_await std::move(asking);
    auto streaming =
        question == kUpload ? send_stream(*channel_, bytes, kPiece) : receive_stream(*channel_, bytes, kPiece);
    co_await std::move(streaming);
    const Duration took = clock_.now() - start;
    if (took < kEnough && size < kMaxTransfer) continue;
    const Duration net = std::max(took - round_trip, took / 10);
    co_return 8 * static_cast<double>(size) / std::chrono::duration<double>(net).count();
  }
}

Task<std::optional<std::string>> Prober::dial_back(unsigned port) {
  auto asking = ask({.type = kDialBack, .tag = port});
  const net::Message answer = co_await std::move(asking);
  if (answer.label.tag == 1) co_return std::nullopt;
  co_return wire::printable({reinterpret_cast<const char*>(answer.payload.data()), answer.payload.size()});
}

}  // namespace rookery::measure
