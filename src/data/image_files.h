#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace rookery::data {

// Labelled images of one shape, as they are in their files, which stay mapped.
struct ImageFiles {
  std::int64_t channels = 0, height = 0, width = 0;
  std::vector<const std::uint8_t*> pixels;  // per image, (C, H, W)
  std::vector<std::uint8_t> labels;         // below kImageClasses
  std::vector<MappedFile> files;            // what the pixels point into

  std::size_t size() const { return pixels.size(); }
};
inline constexpr std::int64_t kImageClasses = 10;

// A data set of images in a directory, and the constants it is normalised with: (pixel / 255 - mean) / deviation.
struct ImageSet {
  std::string name;
  ImageFiles train, test;
  std::array<float, 3> mean{}, deviation{};
};

// Whether a directory has MNIST's or CIFAR-10's first training file.
bool holds_images(const std::filesystem::path& directory);

// MNIST or CIFAR-10, whichever the directory holds.
// Throws InputError naming a file that is missing, cut off, too long, of another format, or has a label out of range.
ImageSet open_images(const std::filesystem::path& directory);

// MNIST's files: IDX, big-endian header (magic 0x803, count, height, width; magic 0x801, count), then bytes.
// Names with '-' or '.' before "idx" are accepted.
ImageFiles read_idx(const std::filesystem::path& images, const std::filesystem::path& labels);

// CIFAR-10's binary version: records of a label and 3 x 32 x 32 bytes.
ImageFiles read_cifar(std::span<const std::filesystem::path> files);

}  // namespace rookery::data
