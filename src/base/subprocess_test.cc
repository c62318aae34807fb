#include "base/subprocess.h"

#include <csignal>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery {
namespace {

using namespace std::chrono_literals;

TEST(SubprocessTest, TalksAndReturnsItsExitCode) {
  Subprocess child([](ControlSocket& control) {
    const auto question = control.receive(10s);
    control.send("you said " + question.value_or("nothing"));
    return 7;
  });
  EXPECT_FALSE(child.control().receive(0ms));
  child.control().send("hello");
  EXPECT_EQ(child.control().receive(10s), "you said hello");
  EXPECT_EQ(child.wait(10s), 7);
}

TEST(SubprocessTest, AChildThatThrowsOrIsKilledIsNoticed) {
  Subprocess throws([](ControlSocket&) -> int { throw Error("on purpose"); });
  EXPECT_EQ(throws.wait(10s), 1);
  Subprocess killed([](ControlSocket&) {
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_THROW(killed.control().receive(10s), Error);
  EXPECT_EQ(killed.wait(10s), 128 + SIGKILL);
}

TEST(SubprocessTest, GoesWithTheObjectEvenWhenFrozen) {
  pid_t pid = 0;
  {
    Subprocess frozen([](ControlSocket&) {
      ::pause();
      return 0;
    });
    pid = frozen.pid();
    ::kill(pid, SIGSTOP);
    EXPECT_FALSE(frozen.wait(1ms));
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(SubprocessTest, AProcessThatHasEndedDoesNotRunEvenBeforeItsParentHasAsked) {
  EXPECT_TRUE(is_running(::getpid()));
  EXPECT_FALSE(is_running(0));
  Subprocess child([](ControlSocket& control) {
    control.receive(10s);
    return 0;
  });
  EXPECT_TRUE(is_running(child.pid()));
  child.control().send("end");
  EXPECT_THROW(child.control().receive(10s), Error);  // its end is closed, so it is about to go
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (is_running(child.pid()) && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
  EXPECT_FALSE(is_running(child.pid()));
  EXPECT_EQ(::kill(child.pid(), 0), 0);  // nobody has asked yet how it ended
  EXPECT_EQ(child.wait(10s), 0);
}

}  // namespace
}  // namespace rookery
