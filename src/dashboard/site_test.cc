#include "dashboard/site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace rookery::dashboard {
namespace {

using testing::HasSubstr;
using testing::Not;

const Pages kPages = {{"/index.html", {"text/html", "<p>page</p>"}}, {"/assets/app.js", {"text/javascript", "1"}}};

class SiteTest : public testing::Test {
 protected:
  Site site(bool open, bool encrypted = false) {
    return Site({.token = "secret", .open = open, .encrypted = encrypted, .port = 80}, kPages,
                [this](Command command, View&) -> std::optional<std::string> {
                  asked_.push_back(command);
                  return objection_;
                });
  }

  Answer ask(const Site& site, const std::string& method, const std::string& target,
             std::map<std::string, std::string, std::less<>> fields = {}) {
    fields.try_emplace("host", "127.0.0.1:80");
    return site.answer({.method = method, .target = target, .fields = std::move(fields)}, view_, 1);
  }

  View view_;
  std::vector<Command> asked_;
  std::optional<std::string> objection_;
};

TEST_F(SiteTest, ShowsThisComputerEverything) {
  const Site open = site(true);
  EXPECT_EQ(ask(open, "GET", "/").body, "<p>page</p>");
  EXPECT_EQ(ask(open, "GET", "/assets/app.js").type, "text/javascript");
  EXPECT_EQ(ask(open, "GET", "/api/state").type, "application/json");
  EXPECT_THAT(ask(open, "GET", "/api/state?x=1").body, HasSubstr("\"may_control\":false"));
  EXPECT_THAT(ask(open, "GET", "/api/state", {{"authorization", "Bearer secret"}}).body,
              HasSubstr("\"may_control\":true"));
  EXPECT_THAT(ask(open, "GET", "/metrics").body, HasSubstr("rookery_step"));
  EXPECT_TRUE(ask(open, "GET", "/api/live").upgrades);
}

TEST_F(SiteTest, OthersNeedTheTokenForAnything) {
  const Site closed = site(false, true);
  for (const char* target : {"/", "/index.html", "/assets/app.js", "/api/state", "/api/live", "/metrics", "/nothing"}) {
    for (const char* method : {"GET", "HEAD", "POST", "DELETE", "OPTIONS"}) {
      const Answer answer = ask(closed, method, target, {{"host", "example.org"}});
      EXPECT_EQ(answer.status, 401) << method << " " << target;
      EXPECT_FALSE(answer.upgrades);
      EXPECT_THAT(answer.body, Not(HasSubstr("secret")));
      EXPECT_THAT(answer.body, Not(HasSubstr("<p>page</p>")));
    }
  }
  for (const char* wrong : {"Bearer secre", "Bearer secret2", "Bearer ", "secret", "Basic secret", ""}) {
    EXPECT_EQ(ask(closed, "GET", "/api/state", {{"authorization", wrong}}).status, 401) << wrong;
  }
  EXPECT_EQ(ask(closed, "GET", "/api/state", {{"authorization", "Bearer secret"}}).status, 200);
}

TEST_F(SiteTest, ACookieStandsForTheToken) {
  const Site closed = site(false, true);
  const Answer session = ask(closed, "POST", "/api/session", {{"authorization", "Bearer secret"}});
  EXPECT_EQ(session.status, 204);
  EXPECT_EQ(session.fields.at("Set-Cookie"), "rookery_80=secret; Path=/; HttpOnly; SameSite=Strict; Secure");
  EXPECT_EQ(ask(closed, "GET", "/", {{"cookie", "a=b; rookery_80=secret"}}).status, 200);
  EXPECT_EQ(ask(closed, "GET", "/", {{"cookie", "rookery_80=secret; a=b"}}).status, 200);
  EXPECT_EQ(ask(closed, "GET", "/", {{"cookie", "rookery_81=secret"}}).status, 401);
  EXPECT_EQ(ask(closed, "GET", "/", {{"cookie", "rookery_80=wrong"}}).status, 401);
  EXPECT_EQ(ask(closed, "POST", "/api/session", {{"authorization", "Bearer wrong"}}).status, 401);
}

TEST_F(SiteTest, OnlyTheTokenMayControl) {
  const Site open = site(true);
  EXPECT_EQ(ask(open, "POST", "/api/stop").status, 401);
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(ask(open, "POST", "/api/pause", {{"authorization", "Bearer secret"}}).status, 202);
  EXPECT_EQ(ask(open, "POST", "/api/resume", {{"cookie", "rookery_80=secret"}}).status, 202);
  EXPECT_EQ(ask(open, "POST", "/api/checkpoint", {{"cookie", "rookery_80=secret"}}).status, 202);
  EXPECT_EQ(ask(open, "POST", "/api/stop", {{"cookie", "rookery_80=secret"}}).status, 202);
  EXPECT_EQ(asked_, (std::vector{Command::kPause, Command::kResume, Command::kCheckpoint, Command::kStop}));
  objection_ = "the run is over";
  const Answer answer = ask(open, "POST", "/api/stop", {{"cookie", "rookery_80=secret"}});
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(answer.body, R"({"error":"the run is over"})");
  EXPECT_EQ(ask(open, "GET", "/api/stop", {{"cookie", "rookery_80=secret"}}).status, 404);
}

TEST_F(SiteTest, OtherSitesMakeNobodyDoAnything) {
  const Site open = site(true);
  const auto post = [&](std::map<std::string, std::string, std::less<>> fields) {
    fields["cookie"] = "rookery_80=secret";
    return ask(open, "POST", "/api/stop", std::move(fields)).status;
  };
  EXPECT_EQ(post({{"origin", "http://evil.example"}}), 403);
  EXPECT_EQ(post({{"origin", "null"}}), 403);
  EXPECT_EQ(post({{"origin", "https://127.0.0.1:80"}}), 403);
  EXPECT_EQ(post({{"sec-fetch-site", "cross-site"}}), 403);
  EXPECT_EQ(post({{"sec-fetch-site", "same-site"}}), 403);
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(post({{"origin", "http://127.0.0.1:80"}, {"sec-fetch-site", "same-origin"}}), 202);
  EXPECT_EQ(ask(open, "GET", "/api/live", {{"origin", "http://evil.example"}}).status, 403);
  // A name of theirs that was made to lead here.
  EXPECT_EQ(ask(open, "GET", "/api/state", {{"host", "evil.example:80"}}).status, 403);
  EXPECT_EQ(ask(open, "GET", "/api/state", {{"host", ""}}).status, 403);
  for (const char* own : {"localhost:80", "127.0.0.1", "[::1]:80", "[::1]"}) {
    EXPECT_EQ(ask(open, "GET", "/api/state", {{"host", own}}).status, 200) << own;
  }
}

TEST_F(SiteTest, ThereIsNothingElse) {
  const Site open = site(true);
  for (const char* path : {"/../etc/passwd", "/assets/../../secret", "//etc/passwd", "/%2e%2e/secret", "/assets/", "*",
                           "", "/index.html/", "http://127.0.0.1/"}) {
    EXPECT_EQ(ask(open, "GET", path).status, 404) << path;
  }
  EXPECT_EQ(ask(open, "DELETE", "/").status, 405);
  EXPECT_EQ(ask(open, "POST", "/nothing", {{"authorization", "Bearer secret"}}).status, 404);
}

TEST_F(SiteTest, EveryAnswerIsStrict) {
  const Site open = site(true), closed = site(false, true);
  for (const Answer& answer : {ask(open, "GET", "/"), ask(open, "GET", "/nothing"), ask(closed, "GET", "/")}) {
    EXPECT_THAT(answer.fields.at("Content-Security-Policy"), HasSubstr("default-src 'none'"));
    EXPECT_THAT(answer.fields.at("Content-Security-Policy"), Not(HasSubstr("unsafe")));
    EXPECT_EQ(answer.fields.at("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(answer.fields.at("Cache-Control"), "no-store");
  }
}

TEST(TokenTest, IsAnotherOneEachTime) {
  EXPECT_EQ(new_token().size(), 32);
  EXPECT_NE(new_token(), new_token());
}

}  // namespace
}  // namespace rookery::dashboard
