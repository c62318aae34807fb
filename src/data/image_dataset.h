#pragma once

#include <filesystem>
#include <memory>

#include "data/dataset.h"

namespace rookery::data {

// Images to classify (data/image_files.h). The last 5,000 training images are for evaluation (a tenth of them, if there
// are fewer than 50,000), the test files for tests. With `augment`, CIFAR-10 training images are shifted by up to 4
// pixels, with 0 moving in, and mirrored half of the time; differently in every epoch.
std::unique_ptr<Dataset> open_image_dataset(const DataOptions& options, const std::filesystem::path& directory);

}  // namespace rookery::data
