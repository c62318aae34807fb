#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rookery::wire {

// Numbers as bytes, least significant first. Writes into a buffer that is large enough by construction.
class Writer {
 public:
  explicit Writer(std::span<std::byte> into) : left_(into) {}

  template <std::unsigned_integral T>
  void put(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) left_[i] = static_cast<std::byte>(value >> (8 * i));
    left_ = left_.subspan(sizeof(T));
  }

  void put(std::string_view text) {
    std::memcpy(left_.data(), text.data(), text.size());
    left_ = left_.subspan(text.size());
  }

 private:
  std::span<std::byte> left_;
};

// Reads what Writer wrote, from bytes that may hold anything. A read past the end gives zeros and makes ok() false, so
// a parser reads everything first and checks once.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <std::unsigned_integral T>
  T get() {
    const auto bytes = take(sizeof(T));
    T value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value = static_cast<T>(value | (static_cast<T>(bytes[i]) << (8 * i)));
    return value;
  }

  std::string text(std::size_t size) {
    const auto bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::size_t left() const { return left_.size(); }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > left_.size()) {
      ok_ = false;
      left_ = {};
      return {};
    }
    const auto bytes = left_.first(size);
    left_ = left_.subspan(size);
    return bytes;
  }

  std::span<const std::byte> left_;
  bool ok_ = true;
};

// A sentence from the other end, fit to be logged: no control characters that could play tricks with a terminal.
std::string printable(std::string text);

}  // namespace rookery::wire
