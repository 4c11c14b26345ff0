# cmake -D root=FOLDER -D files=A;B -D output=FILE -P write_embedded.cmake
set(arrays "")
set(entries "")
set(index 0)
foreach(file IN LISTS files)
  # Numbers, not a string literal: some compilers limit literals to 64 KiB.
  file(READ ${root}/${file} content HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," content "${content}")
  string(APPEND arrays "constexpr unsigned char file_${index}[] = {${content}0};\n")
  string(APPEND entries "    {\"${file}\", {reinterpret_cast<const char*>(file_${index}), sizeof file_${index} - 1}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${output} "#include \"athanor/base/embedded.h\"

namespace athanor {
namespace {

${arrays}
}  // namespace

std::span<const EmbeddedFile> embedded_files() {
  static const EmbeddedFile files[] = {
${entries}  };
  return files;
}

}  // namespace athanor
")
