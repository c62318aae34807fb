#include "observe/internal/lines.h"

#include <fstream>
#include <string>

#include "base/error.h"

namespace rookery::observe::internal {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10, kLongestLine = std::size_t{1} << 20;

void append(std::string& line, std::string_view part, const std::filesystem::path& path, std::int64_t number) {
  if (line.size() + part.size() > kLongestLine) {
    throw InputError("{}:{}: is longer than 1 MiB; this is no file of a run", path.string(), number);
  }
  line += part;
}

}  // namespace

void for_each_line(const std::filesystem::path& path, const std::function<void(std::string_view, std::int64_t)>& use) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError("{}: there is no such file", path.string());
  if (!std::filesystem::is_regular_file(status)) throw InputError("{}: is not a regular file", path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError("{}: cannot be opened", path.string());
  std::string piece(kPiece, '\0'), line;
  std::int64_t number = 1;
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    std::string_view rest = std::string_view(piece).substr(0, static_cast<std::size_t>(file.gcount()));
    for (std::size_t end = 0; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
      append(line, rest.substr(0, end), path, number);
      use(line, number++);
      line.clear();
    }
    append(line, rest, path, number);
  }
  if (file.bad()) throw InputError("{}: cannot be read", path.string());
}

}  // namespace rookery::observe::internal
