#include "data/image_files.h"

#include "base/error.h"

namespace rookery::data {
namespace {

using std::filesystem::path;

constexpr std::uint32_t kImagesMagic = 0x803, kLabelsMagic = 0x801;
constexpr std::int64_t kLargestSide = 4096;
constexpr std::size_t kCifarPixels = std::size_t{3} * 32 * 32;

const std::uint8_t* bytes_of(const MappedFile& file) {
  return reinterpret_cast<const std::uint8_t*>(file.bytes().data());
}

// Word i of a big-endian header that has been found to be there.
std::uint32_t word_at(const MappedFile& file, std::size_t i) {
  const std::uint8_t* at = bytes_of(file) + 4 * i;
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}

void check_header(const MappedFile& file, std::size_t words, std::uint32_t magic, std::string_view what) {
  if (file.bytes().size() < 4 * words || word_at(file, 0) != magic) {
    throw InputError("data.source: {} is not an IDX file of {}; fetch it again (uncompressed)", file.path().string(),
                     what);
  }
}

void check_size(const MappedFile& file, std::uint64_t expected) {
  if (file.bytes().size() != expected) {
    throw InputError("data.source: {} has {} bytes, but its header promises {}; fetch it again", file.path().string(),
                     file.bytes().size(), expected);
  }
}

void add_label(ImageFiles& images, std::uint8_t label, const path& file) {
  if (label >= kImageClasses) {
    throw InputError("data.source: {} has the label {}, but labels are 0 to {}; fetch it again", file.string(), label,
                     kImageClasses - 1);
  }
  images.labels.push_back(label);
}

// The name of an IDX file in `directory`: "train-images-idx3-ubyte", or with a dot.
path idx_name(const path& directory, const std::string& part, const std::string& kind) {
  const path dotted = directory / (part + "." + kind);
  return exists(dotted) ? dotted : directory / (part + "-" + kind);
}

ImageFiles read_idx_part(const path& directory, const std::string& part) {
  return read_idx(idx_name(directory, part + "-images", "idx3-ubyte"),
                  idx_name(directory, part + "-labels", "idx1-ubyte"));
}

bool holds_mnist(const path& directory) { return exists(idx_name(directory, "train-images", "idx3-ubyte")); }
bool holds_cifar(const path& directory) { return exists(directory / "data_batch_1.bin"); }

}  // namespace

ImageFiles read_idx(const path& images, const path& labels) {
  ImageFiles result;
  const MappedFile& pixels = result.files.emplace_back(images);
  check_header(pixels, 4, kImagesMagic, "images");
  const std::uint64_t count = word_at(pixels, 1);
  result.channels = 1;
  result.height = word_at(pixels, 2);
  result.width = word_at(pixels, 3);
  if (count == 0 || result.height < 1 || result.height > kLargestSide || result.width < 1 ||
      result.width > kLargestSide) {
    throw InputError("data.source: {} promises {} images of {} x {}, which cannot be; fetch it again", images.string(),
                     count, result.height, result.width);
  }
  const std::uint64_t image_bytes = static_cast<std::uint64_t>(result.height * result.width);
  check_size(pixels, 16 + count * image_bytes);

  const MappedFile classes(labels);
  check_header(classes, 2, kLabelsMagic, "labels");
  if (word_at(classes, 1) != count) {
    throw InputError("data.source: {} has {} labels for the {} images of {}; fetch both again", labels.string(),
                     word_at(classes, 1), count, images.string());
  }
  check_size(classes, 8 + count);
  for (std::uint64_t i = 0; i < count; ++i) {
    result.pixels.push_back(bytes_of(pixels) + 16 + i * image_bytes);
    add_label(result, bytes_of(classes)[8 + i], labels);
  }
  return result;
}

ImageFiles read_cifar(std::span<const path> files) {
  ImageFiles result;
  result.channels = 3;
  result.height = result.width = 32;
  for (const path& name : files) {
    const MappedFile& file = result.files.emplace_back(name);
    const std::size_t size = file.bytes().size(), record = 1 + kCifarPixels;
    if (size == 0 || size % record != 0) {
      throw InputError("data.source: {} has {} bytes, but CIFAR-10 has {} for each image; fetch it again",
                       name.string(), size, record);
    }
    for (std::size_t at = 0; at < size; at += record) {
      add_label(result, bytes_of(file)[at], name);
      result.pixels.push_back(bytes_of(file) + at + 1);
    }
  }
  return result;
}

bool holds_images(const path& directory) { return holds_mnist(directory) || holds_cifar(directory); }

ImageSet open_images(const path& directory) {
  ImageSet set;
  if (holds_mnist(directory)) {
    set.name = "MNIST";
    set.train = read_idx_part(directory, "train");
    set.test = read_idx_part(directory, "t10k");
    set.mean = {0.1307f};
    set.deviation = {0.3081f};
  } else if (holds_cifar(directory)) {
    std::vector<path> train;
    for (int i = 1; i <= 5; ++i) train.push_back(directory / fmt::format("data_batch_{}.bin", i));
    const std::vector<path> test = {directory / "test_batch.bin"};
    set.name = "CIFAR-10";
    set.train = read_cifar(train);
    set.test = read_cifar(test);
    set.mean = {0.4914f, 0.4822f, 0.4465f};
    set.deviation = {0.2470f, 0.2435f, 0.2616f};
  } else {
    throw InputError(
        "data.source: {} has neither MNIST (train-images-idx3-ubyte, …) nor CIFAR-10 (data_batch_1.bin, …); "
        "'scripts/get_data.sh mnist' fetches MNIST",
        directory.string());
  }
  if (set.train.height != set.test.height || set.train.width != set.test.width) {
    throw InputError("data.source: {} has training images of {} x {} but test images of {} x {}; fetch both again",
                     directory.string(), set.train.height, set.train.width, set.test.height, set.test.width);
  }
  if (set.train.size() < 2) {
    throw InputError("data.source: {} has only one training image; training and evaluation need one each",
                     directory.string());
  }
  return set;
}

}  // namespace rookery::data
