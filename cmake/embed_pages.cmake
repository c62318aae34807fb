# Writes files as C++: cmake -DROOT=dir "-DPAGES=a;b" -DOUT=file.cc -P embed_pages.cmake
set(type_html "text/html; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_svg "image/svg+xml")
set(arrays "")
set(entries "")
set(i 0)
foreach(page ${PAGES})
  file(READ ${ROOT}/${page} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char kPage${i}[] = {${bytes}};\n")
  get_filename_component(kind ${page} LAST_EXT)
  string(SUBSTRING ${kind} 1 -1 kind)
  string(APPEND entries "      {\"/${page}\", {\"${type_${kind}}\", text(kPage${i}, sizeof kPage${i})}},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUT} "// Made from web/ by cmake/embed_pages.cmake.
#include \"dashboard/site.h\"

namespace rookery::dashboard {
namespace {

${arrays}
std::string_view text(const unsigned char* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

const Pages& built_in_pages() {
  static const Pages kPages = {
${entries}  };
  return kPages;
}

}  // namespace rookery::dashboard
")
