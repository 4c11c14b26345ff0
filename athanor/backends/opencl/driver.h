// OpenCL as a driver of the GPU backend: every device that any platform lists.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/backends/gpu/driver.h"
#include "athanor/backends/opencl/api.h"
#include "athanor/backends/opencl/recording.h"

namespace athanor::opencl {

class OpenClDriver final : public gpu::Driver {
 public:
  OpenClDriver(cl_platform_id platform, cl_device_id id, Device device);

  cl_device_id id() const { return id_; }
  cl_context context() const { return context_; }

  void open() override;
  gpu::Memory allocate(size_t bytes, std::string& why) override;
  void free(gpu::Memory memory) noexcept override;
  void* pin(size_t bytes) override;
  gpu::Stream make_stream() override;
  void upload(gpu::Stream stream, gpu::Place to, const void* from, size_t bytes, gpu::Span* span) override;
  void download(gpu::Stream stream, void* to, gpu::Place from, size_t bytes, gpu::Span* span) override;
  void copy(gpu::Stream stream, gpu::Place to, gpu::Place from, size_t bytes, gpu::Span* span) override;
  void fill(gpu::Stream stream, gpu::Place to, uint8_t value, size_t bytes) override;
  void launch(gpu::Stream stream, const gpu::Launch& launch, gpu::Span* span) override;
  gpu::Mark mark(gpu::Stream stream, bool timed) override;
  void wait(gpu::Stream stream, gpu::Mark mark) override;
  bool passed(gpu::Mark mark) override;
  void await(gpu::Mark mark) override;
  void finish(gpu::Stream stream) override;
  void release(gpu::Mark mark) noexcept override;
  gpu::Interval interval(const gpu::Span& span) override;
  bool captures() const override;
  void begin_capture(gpu::Stream stream) override;
  gpu::Captured end_capture(gpu::Stream stream, std::string& why) override;
  void replay(gpu::Stream stream, gpu::Captured captured) override;
  bool replays_overlap() const override { return recorder_.replays_overlap(); }
  void release_captured(gpu::Captured captured) noexcept override { recorder_.release(captured); }
  gpu::Module compile(const std::string& source, const GpuLaunch& launch, std::string* binary) override;
  gpu::Module load(const std::string& binary) override;
  gpu::Function find(gpu::Module module, const GpuLaunch& launch) override;
  void unload(gpu::Module module, std::span<const gpu::Function> functions) noexcept override;

 private:
  void check(cl_int code, std::string_view doing) const;
  cl_mem create_buffer(size_t bytes, cl_int& code);

  cl_platform_id platform_;
  cl_device_id id_;
  cl_context context_ = nullptr;
  std::mutex launching_;  // a kernel object holds the arguments of one launch at a time
  Recorder recorder_;
};

/// All devices, in the order of platforms. {} if there is no OpenCL.
std::vector<std::unique_ptr<gpu::Driver>> list_devices(uint8_t provider);

}  // namespace athanor::opencl
