#include "observe/tensorboard.h"

#include <bit>
#include <cstring>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace rookery::observe {
namespace {

std::uint32_t crc_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc_of(""), 0u);
  EXPECT_EQ(crc_of("123456789"), 0xE3069283u);
  EXPECT_EQ(crc_of(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc_of(std::string(32, '\xff')), 0x62A8AB43u);
}

// An independent reading of the format: Event and Summary as far as we use them.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }
  std::string_view take(std::size_t n) {
    EXPECT_LE(n, bytes_.size());
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  template <typename T>
  T fixed() {
    T value{};
    const std::string_view bytes = take(sizeof(T));
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; !done(); shift += 7) {
      const auto byte = fixed<unsigned char>();
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

 private:
  std::string_view bytes_;
};

struct Event {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string file_version;
  bool starts_session = false;
  std::map<std::string, float> scalars;
};

void read_scalar(std::string_view bytes, Event& event) {
  Reader reader(bytes);
  EXPECT_EQ(reader.varint(), 1u << 3 | 2u);
  const std::string tag(reader.take(reader.varint()));
  EXPECT_EQ(reader.varint(), 2u << 3 | 5u);
  event.scalars[tag] = reader.fixed<float>();
  EXPECT_TRUE(reader.done());
}

Event read_event(std::string_view bytes) {
  Event event;
  for (Reader reader(bytes); !reader.done();) {
    const std::uint64_t key = reader.varint();
    if (key == (1u << 3 | 1u)) {
      event.wall_time = reader.fixed<double>();
    } else if (key == (2u << 3 | 0u)) {
      event.step = reader.varint();
    } else if (key == (3u << 3 | 2u)) {
      event.file_version = reader.take(reader.varint());
    } else if (key == (5u << 3 | 2u)) {
      for (Reader summary(reader.take(reader.varint())); !summary.done();) {
        EXPECT_EQ(summary.varint(), 1u << 3 | 2u);
        read_scalar(summary.take(summary.varint()), event);
      }
    } else if (key == (7u << 3 | 2u)) {
      event.starts_session = reader.take(reader.varint()) == "\x08\x01";
    } else {
      ADD_FAILURE() << "unexpected field " << key;
      break;
    }
  }
  return event;
}

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc_of(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

std::vector<Event> read_events(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::vector<Event> events;
  for (Reader reader(bytes); !reader.done();) {
    const std::string_view length_bytes = reader.take(8);
    EXPECT_EQ(reader.fixed<std::uint32_t>(), masked(length_bytes));
    const std::string_view content = reader.take(Reader(length_bytes).fixed<std::uint64_t>());
    EXPECT_EQ(reader.fixed<std::uint32_t>(), masked(content));
    events.push_back(read_event(content));
  }
  return events;
}

class TensorBoardTest : public testing::Test {
 protected:
  TensorBoardTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "rookery-tensorboard-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~TensorBoardTest() override { std::filesystem::remove_all(directory_); }

  static TensorBoardSink::Options at_second_1000(std::int64_t first_step = 0) {
    return {first_step, [] { return TensorBoardSink::WallTime(std::chrono::milliseconds(1000'500)); }};
  }

  std::filesystem::path directory_;
};

TEST_F(TensorBoardTest, WritesScalarsThatDecodeAgain) {
  TensorBoardSink sink(directory_ / "a" / "tensorboard", at_second_1000());
  EXPECT_THAT(sink.path().filename().string(), testing::StartsWith("events.out.tfevents.1000."));
  StepMetrics metrics{.step = 300, .loss = 2.5, .step_seconds = 0.5, .tokens = 100, .lr = 0.001, .grad_norm = 4};
  sink.step(metrics);
  metrics = {.step = 301, .loss = 2.25, .step_seconds = 0.5, .tokens = 150, .lr = 0.001, .grad_norm = 3};
  metrics.eval_loss = 7;
  metrics.eval_accuracy = 0.75;
  sink.step(metrics);
  sink.finish({});

  const std::vector<Event> events = read_events(sink.path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1000.5);
  EXPECT_EQ(events[1].step, 300u);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{
                                   {"loss", 2.5f}, {"lr", 0.001f}, {"grad_norm", 4}, {"tokens_per_second", 200}}));
  EXPECT_EQ(events[2].step, 301u);
  EXPECT_EQ(events[2].scalars, (std::map<std::string, float>{{"loss", 2.25f},
                                                             {"lr", 0.001f},
                                                             {"grad_norm", 3},
                                                             {"tokens_per_second", 100},
                                                             {"eval_loss", 7},
                                                             {"eval_accuracy", 0.75f}}));
}

TEST_F(TensorBoardTest, ResumedRunReplacesWhatEarlierFilesHaveFromThereOn) {
  TensorBoardSink sink(directory_, at_second_1000(41));
  sink.step({.step = 42, .step_seconds = 1, .tokens = 4200});
  const std::vector<Event> events = read_events(sink.path());
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[1].starts_session);
  EXPECT_EQ(events[1].step, 42u);
  EXPECT_EQ(events[2].scalars.count("tokens_per_second"), 0u);  // tokens of this step alone are not known
}

TEST_F(TensorBoardTest, DirectoryThatCannotBeMadeIsAnErrorThatNamesIt) {
  replace_file(directory_ / "file", "");
  try {
    TensorBoardSink sink(directory_ / "file" / "x");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr((directory_ / "file" / "x").string()));
  }
}

}  // namespace
}  // namespace rookery::observe
