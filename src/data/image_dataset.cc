#include "data/image_dataset.h"

#include <algorithm>

#include <ATen/ops/empty.h>

#include "base/error.h"
#include "base/random.h"
#include "data/image_files.h"

namespace rookery::data {
namespace {

// Where the pixels of an augmented image come from.
struct View {
  std::int64_t down = 0, right = 0;
  bool mirrored = false;
};

class ImageDataset final : public Dataset {
 public:
  ImageDataset(const DataOptions& options, const std::filesystem::path& directory)
      : seed_(options.seed), images_(open_images(directory)) {
    augment_ = options.augment && images_.train.channels == 3;
    eval_ = std::clamp<std::size_t>(images_.train.size() / 10, 1, 5000);
    info_.problem = Problem::kClassification;
    info_.classes = kImageClasses;
    info_.channels = images_.train.channels;
    info_.height = images_.train.height;
    info_.width = images_.train.width;
    info_.description = fmt::format("{}, {} training images", images_.name, size(Split::kTrain));
  }

  const DataInfo& info() const override { return info_; }

  std::uint64_t size(Split split) const override {
    if (split == Split::kTest) return images_.test.size();
    return split == Split::kEval ? eval_ : images_.train.size() - eval_;
  }

  Batch batch(Split split, std::span<const Sampler::Place> places) const override {
    ROOKERY_CHECK(!places.empty());
    const auto rows = static_cast<std::int64_t>(places.size());
    const ImageFiles& files = split == Split::kTest ? images_.test : images_.train;
    const std::uint64_t begin = split == Split::kEval ? size(Split::kTrain) : 0;
    Batch batch;
    batch.inputs = {at::empty({rows, info_.channels, info_.height, info_.width}, at::kFloat)};
    batch.targets = at::empty({rows}, at::kLong);
    batch.samples = batch.tokens = batch.loss_terms = rows;
    float* out = batch.inputs[0].data_ptr<float>();
    for (std::size_t i = 0; i < places.size(); ++i) {
      ROOKERY_CHECK(places[i].index < size(split), "index = {}, size = {}", places[i].index, size(split));
      const std::uint64_t image = begin + places[i].index;
      const View view = augment_ && split == Split::kTrain ? view_of(places[i]) : View{};
      out = write(files.pixels[image], view, out);
      batch.targets.data_ptr<std::int64_t>()[i] = files.labels[image];
    }
    return batch;
  }

  // The labels and every image's middle row.
  std::string fingerprint() const override {
    std::string content = fmt::format("{} {} {} {}", images_.name, info_.height, info_.width, augment_ ? seed_ : 0);
    for (const ImageFiles* files : {&images_.train, &images_.test}) {
      for (std::size_t i = 0; i < files->size(); ++i) {
        content += static_cast<char>(files->labels[i]);
        content.append(reinterpret_cast<const char*>(files->pixels[i]) + info_.height / 2 * info_.width, info_.width);
      }
    }
    return digest(std::as_bytes(std::span(content)));
  }

 private:
  View view_of(Sampler::Place place) const {
    Random random({seed_, word_of("augment"), place.epoch, place.index});
    View view;
    view.down = static_cast<std::int64_t>(random.below(9)) - 4;
    view.right = static_cast<std::int64_t>(random.below(9)) - 4;
    view.mirrored = random.below(2) == 1;
    return view;
  }

  // Writes one image, (C, H, W), and returns where the next one goes.
  float* write(const std::uint8_t* pixels, View view, float* out) const {
    for (std::int64_t c = 0; c < info_.channels; ++c) {
      const float scale = 1 / (255 * images_.deviation[c]), shift = -images_.mean[c] / images_.deviation[c];
      const std::uint8_t* channel = pixels + c * info_.height * info_.width;
      for (std::int64_t y = 0; y < info_.height; ++y) {
        for (std::int64_t x = 0; x < info_.width; ++x) {
          const std::int64_t from_y = y + view.down, from_x = (view.mirrored ? info_.width - 1 - x : x) + view.right;
          const bool inside = from_y >= 0 && from_y < info_.height && from_x >= 0 && from_x < info_.width;
          *out++ = (inside ? channel[from_y * info_.width + from_x] : 0) * scale + shift;
        }
      }
    }
    return out;
  }

  std::uint64_t seed_;
  ImageSet images_;
  bool augment_ = false;
  std::size_t eval_ = 0;
  DataInfo info_;
};

}  // namespace

std::unique_ptr<Dataset> open_image_dataset(const DataOptions& options, const std::filesystem::path& directory) {
  return std::make_unique<ImageDataset>(options, directory);
}

}  // namespace rookery::data
