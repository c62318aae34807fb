#include "config/settings.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace rookery::config {
namespace {

using namespace std::chrono_literals;

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::HasSubstr;

// A file run.toml in a directory of its own, which is also the working directory, so that messages name it shortly.
class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "rookery-settings-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    std::filesystem::current_path(directory_);
  }
  ~SettingsTest() override {
    std::filesystem::current_path("/");
    std::filesystem::remove_all(directory_);
  }

  static Settings from(const std::string& toml, const std::vector<std::string>& overrides = {}) {
    std::ofstream("run.toml") << toml;
    return load("run.toml", overrides);
  }
  static Settings set(const std::vector<std::string>& overrides) { return load(std::nullopt, overrides); }

  // The message with which a file or overrides are refused, or "accepted".
  template <typename Load>
  static std::string message_of(Load load_settings) {
    try {
      load_settings();
      return "accepted";
    } catch (const InputError& error) {
      return error.what();
    }
  }
  static std::string refusal(const std::string& toml) {
    return message_of([&] { from(toml); });
  }
  static std::string refusal_of_set(const std::string& override_text) {
    return message_of([&] { set({override_text}); });
  }

 private:
  std::filesystem::path directory_;
};

Settings heavily_changed() {
  Settings s;
  s.name = "täles \"7\" \\ x";
  s.model = {"resnet18", 3, 96, 6, 100, 77, 512, 0.125, 10, 3, 32, "cifar"};
  s.data = {"/data/a # b\tc\x01", "sentencepiece:my model.spm", true, 1.0 / 3};
  s.train.steps = 123456789012;
  s.train.batch = 48;
  s.train.micro_batches = 6;
  s.train.optimizer = "accum-adamw";
  s.train.lr = 0.1 + 0.2;
  s.train.weight_decay = 0;
  s.train.beta1 = 0.974;
  s.train.epsilon = 1e-300;
  s.train.nesterov = true;
  s.train.clip = 1e22;
  s.train.schedule = "inverse-sqrt";
  s.train.seed = std::numeric_limits<std::int64_t>::max();
  s.train.device = "cuda:3";
  s.swarm = {7, Clusters{3, {}}};
  s.pipeline = {"1f1b", std::vector<LayerRange>{{0, 3}, {3, 4}, {4, 9}}, "recompute", 4, "bf16"};
  s.sync = {"palsgd", 100, "int8", "one-peer-exp", "atc", 0.5,   0.1, 0.8, 0.2, 1, 0.02, "every-step", 64,
            4,        5,   0.5,    true,           8,     "clip"};
  s.network = {123456789.5, milliseconds(20), nanoseconds(1234567), 0.01};
  s.peers = {{0.5, 0.2, 50ms, Bytes{512} << 20, "a"}, {}, {2, 0, 0s, 1'000'000'007, "b"}};
  s.dashboard = {"0.0.0.0:8443", "dashboard.pem", "dashboard.key"};
  return s;
}

TEST_F(SettingsTest, WithoutFileOrOverridesGivesTheDefaults) {
  EXPECT_EQ(set({}), Settings{});
  EXPECT_EQ(from(""), Settings{});
}

TEST_F(SettingsTest, ReadsEverySectionOfAFile) {
  const Settings s = from(R"(
name = "demo"
[model]
kind = "bert"
layers = 2
[train]
lr = 3e-4
clip = 2          # a whole number is a number, too
nesterov = true
[swarm]
peers = 4
clusters = 2
[pipeline]
stages = [[0, 3], [3, 6]]
[network]
bandwidth = "100mbit"
latency = "20ms"
[[peer]]
speed = 0.5
memory = "512MiB"
[[peer]]
host = "b"
)");
  Settings expected;
  expected.name = "demo";
  expected.model.kind = "bert";
  expected.model.layers = 2;
  expected.train.lr = 3e-4;
  expected.train.clip = 2;
  expected.train.nesterov = true;
  expected.swarm = {4, Clusters{2, {}}};
  expected.pipeline.stages = {{0, 3}, {3, 6}};
  expected.network.bandwidth = 100e6;
  expected.network.latency = milliseconds(20);
  expected.peers = {{0.5, 0, 0s, Bytes{512} << 20, ""}, {1, 0, 0s, std::nullopt, "b"}};
  EXPECT_EQ(s, expected);
}

TEST_F(SettingsTest, WordsStandForNoValue) {
  const Settings s = from(R"(
swarm.clusters = "auto"
pipeline.stages = "auto"
network.bandwidth = "unlimited"
)");
  EXPECT_EQ(s, Settings{});
}

TEST_F(SettingsTest, OverridesChangeTheFileInTheirOrder) {
  const Settings s = from("[train]\nsteps = 5\nlr = 1.0\n", {"train.steps=6", "train.steps=7", "model.kind=mlp"});
  EXPECT_EQ(s.train.steps, 7);
  EXPECT_EQ(s.train.lr, 1.0);
  EXPECT_EQ(s.model.kind, "mlp");
}

TEST_F(SettingsTest, OverridesMayLeaveOutQuotesWhereTheKeyIsText) {
  EXPECT_EQ(set({"name=x"}).name, "x");
  EXPECT_EQ(set({"name=\"x y\""}).name, "x y");
  EXPECT_EQ(set({"name=2024-01-01"}).name, "2024-01-01");
  EXPECT_EQ(set({"name=17"}).name, "17");
  EXPECT_EQ(set({"data.source=/a=b/c d.txt"}).data.source, "/a=b/c d.txt");
  EXPECT_EQ(set({"data.source=a\nb = 1"}).data.source, "a\nb = 1");
  EXPECT_EQ(set({"sync.method=diloco"}).sync.method, "diloco");
  EXPECT_EQ(set({"network.latency=1.5s"}).network.latency, milliseconds(1500));
  EXPECT_EQ(set({"swarm.clusters=auto"}).swarm.clusters, std::nullopt);
  const Clusters sizes{.count = 2, .sizes = {2, 5}};
  EXPECT_EQ(set({"swarm.peers=7", "swarm.clusters=[2, 5]"}).swarm.clusters, sizes);
}

TEST_F(SettingsTest, OverridesTakeTomlValues) {
  EXPECT_EQ(set({"train.lr=3e-4"}).train.lr, 3e-4);
  EXPECT_EQ(set({"data.augment=true"}).data.augment, true);
  EXPECT_EQ(set({"pipeline.stages=[[0,2]]"}).pipeline.stages, (std::vector<LayerRange>{{0, 2}}));
  EXPECT_EQ(set({"model={layers=2, width=64}"}).model.width, 64);
}

TEST_F(SettingsTest, OverridesReachSinglePeers) {
  const Settings s = set({"swarm.peers=3", "peer.1.speed=0.5", "peer.1.host=b", "peer.1.fault=flip"});
  EXPECT_EQ(s.peers, (std::vector<Peer>{{}, {0.5, 0, 0s, std::nullopt, "b", "flip"}}));
  EXPECT_EQ(refusal_of_set("peer.x.speed=1"),
            "--set: peer.x.speed is not a known key; write peer.NUMBER.KEY, e.g. peer.0.speed");
  EXPECT_THAT(refusal_of_set("peer.99999999999.speed=1"), HasSubstr("not a known key"));
  EXPECT_THAT(refusal_of_set("peer.0=1"), HasSubstr("not a known key"));
  EXPECT_EQ(refusal_of_set("peer.0.sped=1"), "--set: peer.0.sped is not a known key; did you mean 'speed'?");
}

TEST_F(SettingsTest, UnknownNamesAreRefusedWithTheNearestKnownOne) {
  EXPECT_EQ(refusal("name = 'x'\n[model]\n\nwidht = 3"),
            "run.toml:4: model.widht is not a known key; did you mean 'width'?");
  EXPECT_EQ(refusal("[trian]\nsteps = 3"), "run.toml:1: trian is not a known section; did you mean 'train'?");
  EXPECT_EQ(refusal("\nnme = 'x'"), "run.toml:2: nme is not a known key; did you mean 'name'?");
  EXPECT_EQ(refusal("lr = 0.1"), "run.toml:1: lr is not a known key; did you mean 'train.lr'?");
  EXPECT_EQ(refusal("[model]\nsteps = 1"), "run.toml:2: model.steps is not a known key; did you mean 'train.steps'?");
  EXPECT_EQ(refusal("[[peer]]\n[[peer]]\nspede = 1"),
            "run.toml:3: peer.1.spede is not a known key; did you mean 'speed'?");
  EXPECT_EQ(refusal_of_set("train.stepps=3"), "--set: train.stepps is not a known key; did you mean 'steps'?");
  EXPECT_EQ(refusal_of_set("lr=3"), "--set: lr is not a known key; did you mean 'train.lr'?");
}

TEST_F(SettingsTest, WrongTypesAreRefused) {
  EXPECT_EQ(refusal("[train]\n\nsteps = 'x'"), "run.toml:3: train.steps must be a whole number, not a string");
  EXPECT_EQ(refusal("train.steps = 3.0"),
            "run.toml:1: train.steps must be a whole number, not a number with a fraction");
  EXPECT_EQ(refusal("train.lr = true"), "run.toml:1: train.lr must be a number, not true or false");
  EXPECT_EQ(refusal("train.nesterov = 1"), "run.toml:1: train.nesterov must be true or false, not a whole number");
  EXPECT_EQ(refusal("model.kind = 3"), "run.toml:1: model.kind must be a string, not a whole number");
  EXPECT_EQ(refusal("name = 2024-01-01"), "run.toml:1: name must be a string, not a date or time");
  EXPECT_EQ(refusal("train = 3"), "run.toml:1: train must be a table, [train], not a whole number");
  EXPECT_EQ(refusal("train.lr.x = 3"), "run.toml:1: train.lr must be a number, not a table");
  EXPECT_EQ(refusal("[peer]\nspeed = 1"), "run.toml:1: peer must be a list of tables, [[peer]], not a table");
  EXPECT_EQ(refusal("peer = [1]"), "run.toml:1: peer.0 must be a table, [peer.0], not a whole number");
  EXPECT_EQ(refusal_of_set("train.steps=many"), "--set: train.steps must be a whole number, not a string");
}

TEST_F(SettingsTest, ValuesOutOfRangeAreRefused) {
  EXPECT_EQ(refusal("train.steps = 0"), "run.toml:1: train.steps must be at least 1, not 0");
  EXPECT_EQ(refusal("train.threads = 5000"), "run.toml:1: train.threads must be at most 4096, not 5000");
  EXPECT_EQ(refusal("train.lr = 0"), "run.toml:1: train.lr must be greater than 0, not 0");
  EXPECT_EQ(refusal("train.beta1 = 1"), "run.toml:1: train.beta1 must be at least 0 and less than 1, not 1");
  EXPECT_EQ(refusal("train.lr = nan"), "run.toml:1: train.lr must be greater than 0, not nan");
  EXPECT_EQ(refusal("train.lr = inf"), "run.toml:1: train.lr must be greater than 0, not inf");
  EXPECT_EQ(refusal("swarm.clusters = 0"), "run.toml:1: swarm.clusters must be at least 1, not 0 (or \"auto\")");
  EXPECT_EQ(refusal("network.bandwidth = '0bit'"),
            "run.toml:1: network.bandwidth must be greater than 0 (or \"unlimited\")");
}

TEST_F(SettingsTest, UnknownChoicesAreRefusedWithTheKnownOnes) {
  EXPECT_EQ(refusal("sync.mode = 'cwcc'"),
            "run.toml:1: sync.mode must be one of cwc, atc, not 'cwcc'; did you mean 'cwc'?");
  EXPECT_THAT(refusal_of_set("sync.method=diloko"),
              testing::AllOf(HasSubstr("must be one of auto, allreduce,"), HasSubstr("did you mean 'diloco'?")));
}

TEST_F(SettingsTest, WrongUnitsAreRefused) {
  EXPECT_THAT(
      refusal("network.latency = '20'"),
      HasSubstr("run.toml:1: network.latency must be a duration such as \"20ms\": '20' has no unit; write one of"));
  EXPECT_THAT(refusal("network.bandwidth = '5ms'"), HasSubstr("unknown unit 'ms'"));
  EXPECT_THAT(refusal("peer = [{memory = 512}]"), HasSubstr("peer.0.memory must be a size such as \"512MiB\", not a"));
}

TEST_F(SettingsTest, TextIsCheckedForItsUse) {
  for (const char* name : {"", "..", "a/b", "a\\nb"}) {
    EXPECT_THAT(refusal(std::string("name = \"") + name + "\""),
                HasSubstr("name must be a name that a directory can have"))
        << name;
  }
  EXPECT_THAT(refusal_of_set("name=\xff"), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal("data.tokenizer = 'sentencepiece:'"), HasSubstr("data.tokenizer must be \"bytes\" or"));
  EXPECT_THAT(refusal("train.device = 'cuda:x'"), HasSubstr("train.device must be"));
  EXPECT_THAT(refusal("dashboard.listen = '127.0.0.1:70000'"), HasSubstr("dashboard.listen must be"));
  EXPECT_EQ(refusal("dashboard.listen = '[::1]:8080'"), "accepted");
}

TEST_F(SettingsTest, StagesMustBeContiguousRanges) {
  EXPECT_EQ(refusal("pipeline.stages = [[0, 3], [4, 6]]"),
            "run.toml:1: pipeline.stages must cover the layers from 0 on without gaps, but [4, 6] follows layer 3 (or "
            "\"auto\")");
  for (const char* stages : {"[]", "[[0]]", "[[1, 3]]", "[[0, 0]]", "[0, 3]", "[['a', 3]]", "'all'", "7"}) {
    EXPECT_THAT(refusal(std::string("pipeline.stages = ") + stages), HasSubstr("run.toml:1: pipeline.stages must"))
        << stages;
  }
}

TEST_F(SettingsTest, ValuesMustFitTogether) {
  EXPECT_EQ(refusal("train.micro_batches = 3"),
            "run.toml: train.batch (16) must be a multiple of train.micro_batches (3)");
  EXPECT_EQ(refusal_of_set("model={width=100, heads=3}"), "model.width (100) must be a multiple of model.heads (3)");
  EXPECT_EQ(refusal_of_set("swarm.clusters=2"), "swarm.clusters (2) must not be more than swarm.peers (1)");
  EXPECT_EQ(refusal_of_set("swarm.clusters=[2]"), "swarm.clusters [2] has 2 peers, but swarm.peers is 1");
  EXPECT_EQ(refusal("[[peer]]\n[[peer]]"), "run.toml: there are 2 [[peer]] tables, but swarm.peers is 1");
}

TEST_F(SettingsTest, FilesThatAreNotSettingsAreRefused) {
  EXPECT_THAT(message_of([] { load("none.toml"); }), HasSubstr("none.toml: cannot open: No such file"));
  EXPECT_THAT(message_of([] { load("."); }), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal("[train]\nsteps = = 3"), HasSubstr("run.toml:2: is not valid TOML: "));
  EXPECT_THAT(refusal("name = 'a'\nname = 'b'"), HasSubstr("run.toml:2: is not valid TOML: "));
  EXPECT_THAT(refusal("name = '\xff'"), HasSubstr("is not valid TOML"));
  EXPECT_EQ(refusal(std::string((1 << 20) + 1, '#')), "run.toml: is larger than 1.0 MiB");
  EXPECT_EQ(refusal(std::string(1 << 20, '#')), "accepted");
  EXPECT_THAT(refusal("x = " + std::string(100'000, '[')), HasSubstr("is not valid TOML"));
}

TEST_F(SettingsTest, OverridesWithoutAValueAreRefused) {
  EXPECT_EQ(refusal_of_set("train.steps"), "--set: 'train.steps' is not of the form section.key=value");
  EXPECT_EQ(refusal_of_set("=3"), "--set: '=3' is not of the form section.key=value");
  EXPECT_THAT(refusal_of_set("train.steps="), HasSubstr("must be a whole number"));
  EXPECT_EQ(refusal_of_set("train.steps=5\nother = 1"), "--set: train.steps must be a whole number, not a string");
  EXPECT_EQ(refusal_of_set("name=\"x"), "--set: \"x is not a TOML string");
}

TEST_F(SettingsTest, PrintedFileLoadsToEqualSettings) {
  EXPECT_EQ(from(to_toml(Settings{})), Settings{});
  EXPECT_EQ(from(to_toml(heavily_changed())), heavily_changed()) << to_toml(heavily_changed());
}

TEST_F(SettingsTest, PrintedFileExplainsEveryKeyWithin120Columns) {
  std::istringstream lines(to_toml(Settings{}));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line, line.substr(0, line.find_last_not_of(' ') + 1));
    const auto continues = [](char c) { return (c & 0xC0) == 0x80; };
    EXPECT_LE(line.size() - std::count_if(line.begin(), line.end(), continues), 120u) << line;
    if (line.find(" = ") != std::string::npos) {
      EXPECT_THAT(line, HasSubstr("  # "));
    }
  }
}

TEST_F(SettingsTest, PrintedFileShowsUnitsAndChoices) {
  const std::string text = to_toml(heavily_changed());
  EXPECT_THAT(text, HasSubstr("latency = \"20ms\""));
  EXPECT_THAT(text, HasSubstr("memory = \"512MiB\""));
  EXPECT_THAT(text, HasSubstr("stages = [[0, 3], [3, 4], [4, 9]]"));
  EXPECT_THAT(text, HasSubstr("constant, cosine, inverse-sqrt, linear"));
}

TEST_F(SettingsTest, JsonHasTheNamesAndValuesOfTheFile) {
  const auto json = to_json(heavily_changed());
  EXPECT_EQ(json["train"]["steps"], 123456789012);
  EXPECT_EQ(json["swarm"]["clusters"], 3);
  EXPECT_EQ(json["pipeline"]["stages"], nlohmann::ordered_json::parse("[[0,3],[3,4],[4,9]]"));
  EXPECT_EQ(json["network"]["latency"], "20ms");
  EXPECT_EQ(json["peer"][1]["memory"], "unlimited");
  EXPECT_EQ(json["peer"].size(), 3u);
  EXPECT_EQ(to_json(Settings{})["swarm"]["clusters"], "auto");
  EXPECT_EQ(to_json(Settings{}).begin().key(), "name");
}

}  // namespace
}  // namespace rookery::config
