#include "measure/stream.h"

#include <algorithm>
#include <deque>

namespace rookery::measure {
namespace {

constexpr std::size_t kWindow = 64;  // messages on their way

}  // namespace

Task<> send_stream(net::Channel& channel, net::ConstBytes bytes, std::size_t piece) {
  std::deque<net::Send> sends;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    sends.emplace_back().payload = bytes.subspan(at, std::min(piece, bytes.size() - at));
    channel.post(sends.back());
    if (sends.size() < kWindow) continue;
    co_await sends.front().finish();
    sends.pop_front();
  }
  for (net::Send& send : sends) co_await send.finish();
  auto answer = channel.receive();
  co_await std::move(answer);
}

Task<> receive_stream(net::Channel& channel, net::MutableBytes bytes, std::size_t piece) {
  std::deque<net::Receive> receives;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    receives.emplace_back().into = bytes.subspan(at, std::min(piece, bytes.size() - at));
    channel.post(receives.back());
    if (receives.size() < kWindow) continue;
    co_await receives.front().finish();
    receives.pop_front();
  }
  for (net::Receive& receive : receives) co_await receive.finish();
  auto answering = channel.send({});
  co_await std::move(answering);
}

}  // namespace rookery::measure
