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
  SiteTest() { view_.run.name = "tales"; }

  Site site(bool open, bool encrypted = false) {
    return Site({.token = "secret", .open = open, .encrypted = encrypted}, kPages,
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
  for (const char* target : {"/", "/index.html", "/api/state", "/api/live", "/api/session", "/metrics", "/nothing"}) {
    for (const char* method : {"GET", "HEAD", "POST", "DELETE", "OPTIONS"}) {
      const Answer answer = ask(closed, method, target, {{"host", "example.org"}});
      EXPECT_EQ(answer.status, 401) << method << " " << target;
      EXPECT_FALSE(answer.upgrades);
      EXPECT_THAT(answer.body, Not(HasSubstr("secret")));
      EXPECT_THAT(answer.body, Not(HasSubstr("tales")));
    }
  }
  for (const char* wrong : {"Bearer secre", "Bearer secret2", "Bearer ", "secret", "Basic secret", ""}) {
    EXPECT_EQ(ask(closed, "GET", "/api/state", {{"authorization", wrong}}).status, 401) << wrong;
  }
  EXPECT_EQ(ask(closed, "GET", "/api/state", {{"authorization", "Bearer secret"}}).status, 200);
}

// The same for all runs, and nothing but what browsers need to ask for the token.
TEST_F(SiteTest, OthersGetThePageInWhichTheTokenCanBeGiven) {
  const Site closed = site(false, true);
  EXPECT_EQ(ask(closed, "GET", "/").body, "<p>page</p>");
  EXPECT_EQ(ask(closed, "GET", "/").status, 401);
  EXPECT_EQ(ask(closed, "GET", "/assets/app.js").status, 200);
  EXPECT_EQ(ask(closed, "POST", "/assets/app.js").status, 401);
}

TEST_F(SiteTest, NoCookieStandsForTheToken) {
  const Site open = site(true), closed = site(false, true);
  const std::map<std::string, std::string, std::less<>> fields = {
      {"cookie", "rookery_80=secret; token=secret; secret; Bearer secret"}};
  EXPECT_EQ(ask(closed, "GET", "/api/state", fields).status, 401);
  EXPECT_EQ(ask(open, "POST", "/api/stop", fields).status, 401);
  for (const Answer& answer :
       {ask(open, "GET", "/", fields), ask(closed, "GET", "/", {{"authorization", "Bearer secret"}}),
        ask(closed, "POST", "/api/session", {{"authorization", "Bearer secret"}})}) {
    EXPECT_FALSE(answer.fields.contains("Set-Cookie"));
  }
}

TEST_F(SiteTest, WebSocketsHaveTheTokenAmongTheirProtocols) {
  const Site open = site(true), closed = site(false, true);
  const auto live = [&](const Site& site, const std::string& protocols, const char* target = "/api/live") {
    return ask(site, "GET", target, {{"sec-websocket-protocol", protocols}});
  };
  for (const char* right :
       {"rookery, rookery-token.secret", "rookery-token.secret,rookery", " a ,rookery-token.secret "}) {
    EXPECT_TRUE(live(closed, right).upgrades) << right;
    EXPECT_TRUE(open.has_token({.target = "/api/live", .fields = {{"sec-websocket-protocol", right}}})) << right;
  }
  for (const char* wrong : {"", "rookery", "secret", "rookery-token.", "rookery-token.secre", "rookery-token.secret2",
                            "rookery-token.a, rookery-token.b", "rookery-token secret", ",", " "}) {
    EXPECT_EQ(live(closed, wrong).status, 401) << wrong;
    EXPECT_TRUE(live(open, wrong).upgrades) << wrong;
  }
  EXPECT_EQ(live(closed, "rookery-token.secret", "/api/state").status, 401);  // for nothing else
  // What was agreed never names the token.
  EXPECT_EQ(live(closed, "rookery, rookery-token.secret").protocol, "rookery");
  EXPECT_EQ(live(open, "rookery").protocol, "rookery");
  EXPECT_EQ(live(closed, "rookery-token.secret").protocol, "");
  EXPECT_EQ(live(open, "").protocol, "");
}

TEST_F(SiteTest, OnlyTheTokenMayControl) {
  const Site open = site(true);
  const std::map<std::string, std::string, std::less<>> fields = {{"authorization", "Bearer secret"}};
  EXPECT_EQ(ask(open, "POST", "/api/stop").status, 401);
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(ask(open, "POST", "/api/pause", fields).status, 202);
  EXPECT_EQ(ask(open, "POST", "/api/resume", fields).status, 202);
  EXPECT_EQ(ask(open, "POST", "/api/checkpoint", fields).status, 202);
  EXPECT_EQ(ask(open, "POST", "/api/stop", fields).status, 202);
  EXPECT_EQ(asked_, (std::vector{Command::kPause, Command::kResume, Command::kCheckpoint, Command::kStop}));
  objection_ = "the run is over";
  const Answer answer = ask(open, "POST", "/api/stop", fields);
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(answer.body, R"({"error":"the run is over"})");
  EXPECT_EQ(ask(open, "GET", "/api/stop", fields).status, 404);
}

TEST_F(SiteTest, OtherSitesMakeNobodyDoAnything) {
  const Site open = site(true);
  const auto post = [&](std::map<std::string, std::string, std::less<>> fields) {
    fields["authorization"] = "Bearer secret";
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
}

// A name of somebody else may be made to lead here.
TEST_F(SiteTest, ThisComputerIsKnownByItsOwnAddressesAlone) {
  const Site open = site(true);
  for (const char* other : {"evil.example:80",
                            "127.evil.example",
                            "127.0.0.1.evil.example:80",
                            "127.0.0.1evil.example",
                            "127.example:80",
                            "localhost.evil.example",
                            "127.0.0.256",
                            "127.0.1",
                            "0x7f.0.0.1",
                            "2130706433",
                            "10.0.0.1",
                            "0.0.0.0",
                            "::1",
                            "[::2]",
                            "[::1",
                            "[127.0.0.1]",
                            "[]",
                            "[",
                            "",
                            ":80"}) {
    EXPECT_EQ(ask(open, "GET", "/api/state", {{"host", other}}).status, 403) << other;
    EXPECT_EQ(ask(open, "GET", "/", {{"host", other}, {"authorization", "Bearer secret"}}).status, 403) << other;
  }
  for (const char* own : {"localhost:80", "127.0.0.1", "127.0.0.1:80", "127.1.2.3:80", "[::1]:80", "[::1]"}) {
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
