# cmake -D root=FOLDER -D files=A;B -D output=FILE -P write_kernel_texts.cmake
set(entries "")
foreach(file IN LISTS files)
  file(RELATIVE_PATH name ${root} ${file})
  file(READ ${file} content)
  # A string literal holds 64 KiB at most on some compilers; ours are far below.
  string(APPEND entries "    {\"${name}\", R\"kernel(${content})kernel\"},\n")
endforeach()
file(WRITE ${output} "#include \"athanor/kernels/gpu/texts.h\"

namespace athanor {

std::span<const GpuText> gpu_texts() {
  static constexpr GpuText texts[] = {
${entries}  };
  return texts;
}

}  // namespace athanor
")
