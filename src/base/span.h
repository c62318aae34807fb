#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace rookery {

// Says that something begins, to whoever watches: what, and the number of it. What is returned says that it has ended,
// on any thread. Empty where nobody watches.
using BeginSpan = std::function<std::function<void()>(std::string_view what, std::uint64_t number)>;

// Whichever of the two watches, or both.
inline BeginSpan both(BeginSpan one, BeginSpan other) {
  if (!one || !other) return one ? one : other;
  return [one = std::move(one), other = std::move(other)](std::string_view what,
                                                          std::uint64_t number) -> std::function<void()> {
    return [a = one(what, number), b = other(what, number)] {
      if (a) a();
      if (b) b();
    };
  };
}

// The same for a scope.
class Span {
 public:
  Span(const BeginSpan& begin, std::string_view what, std::uint64_t number) {
    if (begin) end_ = begin(what, number);
  }
  ~Span() {
    if (end_) end_();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  std::function<void()> end_;
};

}  // namespace rookery
