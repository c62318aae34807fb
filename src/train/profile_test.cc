#include "train/profile.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace rookery::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Blueprint blueprint() {
    config::Settings settings;
    settings.model.layers = 2;
    settings.model.width = 32;
    settings.model.heads = 2;
    settings.model.context = 32;
    settings.train.batch = 4;
    return make_blueprint(settings);
  }

  fs::path kept() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());  // beside its lock
    }
    EXPECT_EQ(files.size(), 1u);
    return files.at(0);
  }

  // What was kept says that this computer is so many times slower than it is.
  void exaggerate(double times) const {
    json all = json::parse(read_file(kept(), 1 << 20));
    for (const char* key : {"forward", "backward"}) {
      for (json& value : all[key]) value = value.get<double>() * times;
    }
    replace_file(kept(), all.dump());
  }

  fs::path folder_;
};

double total(const Profile& profile) {
  double sum = 0;
  for (const plan::LayerProfile& layer : profile.layers) sum += layer.forward + layer.backward;
  return sum;
}

TEST_F(ProfileTest, IsMeasuredOnceAndThenKnown) {
  const Profile first = known_profile(blueprint(), folder_);
  EXPECT_GT(total(first), 0);
  exaggerate(1000);
  EXPECT_NEAR(total(known_profile(blueprint(), folder_)), 1000 * total(first), total(first));
}

TEST_F(ProfileTest, IsMeasuredAnewByAComputerThatHasChanged) {
  const Profile first = current_profile(blueprint(), folder_);
  exaggerate(1000);
  EXPECT_LT(total(current_profile(blueprint(), folder_)), 100 * total(first));
  EXPECT_LT(total(known_profile(blueprint(), folder_)), 100 * total(first));  // and kept
}

TEST_F(ProfileTest, ADamagedFileIsMeasuredAnew) {
  known_profile(blueprint(), folder_);
  for (const char* text : {"", "{}", "[1, 2]", R"({"forward": ["x"], "backward": [1], "update": 1, "jitter": 1})"}) {
    replace_file(kept(), text);
    EXPECT_GT(total(known_profile(blueprint(), folder_)), 0) << text;
  }
}

}  // namespace
}  // namespace rookery::train
