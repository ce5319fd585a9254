// A device that is not there: kernels are computed at once, on the CPU, and are said to take a set
// time each on a line of time of the device's own. The host runs ahead of it, waits where it reads,
// and events tell its time: all that a measurement of a real one has to get right. It has streams,
// each of which works off what it is given in order.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/TensorShape.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace {

using at::Tensor;
constexpr auto KIND = c10::DeviceType::PrivateUse1;
constexpr size_t HEADER = 64;

constexpr int STREAMS = 4;

std::atomic<int64_t> busy_until[STREAMS], each_kernel{0}, kernels{0}, allocated{0}, peak{0};
thread_local int stream_now = 0;
thread_local bool computing = false;  // what the CPU copies to compute a kernel takes no time

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t reach(int64_t stream) { return std::max(now(), busy_until[stream].load()); }

void work() {
  if (computing) return;
  busy_until[stream_now] = reach(stream_now) + each_kernel;
  kernels++;
}

void hold(int64_t stream, int64_t until) { busy_until[stream] = std::max(reach(stream), until); }

void wait(int64_t until) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::max<int64_t>(0, until - now())));
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return KIND; }
  c10::Device exchangeDevice(c10::Device) const override { return {KIND, 0}; }
  c10::Device getDevice() const override { return {KIND, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

void release(void* start) {
  if (start == nullptr) return;
  allocated -= *static_cast<int64_t*>(start);
  free(start);
}

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void* start = nullptr;
    TORCH_CHECK(posix_memalign(&start, HEADER, HEADER + size) == 0, "out of memory");
    *static_cast<int64_t*>(start) = static_cast<int64_t>(size);
    allocated += static_cast<int64_t>(size);
    peak = std::max(peak.load(), allocated.load());
    return {static_cast<char*>(start) + HEADER, start, &release, {KIND, 0}};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }
};
Memory memory;
REGISTER_ALLOCATOR(KIND, &memory);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

Tensor on_cpu(const Tensor& tensor) {
  if (!tensor.is_privateuseone()) return tensor;
  auto options = at::TensorOptions().dtype(tensor.dtype());
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>,
             std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                     std::optional<at::ScalarType> type, std::optional<at::Layout>,
                     std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(
      size, stride, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      type.value_or(at::kFloat));
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  work();
  bool across = from.is_privateuseone() != to.is_privateuseone();
  if (across && !computing && !(non_blocking && to.is_privateuseone())) wait(busy_until[stream_now]);
  if (to.numel() > 0) on_cpu(to).copy_(on_cpu(from));
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar(const Tensor& tensor) {
  if (!computing) wait(busy_until[stream_now]);
  return on_cpu(tensor).item();
}

const Tensor& resize(const Tensor& tensor, c10::SymIntArrayRef size,
                     std::optional<at::MemoryFormat>) {
  auto* known = tensor.unsafeGetTensorImpl();
  known->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  auto storage = tensor.storage();
  auto needed = (known->numel() + known->storage_offset()) * known->itemsize();
  if (needed > storage.nbytes()) {
    auto larger = memory.allocate(needed);
    memcpy(larger.get(), storage.data(), storage.nbytes());
    storage.set_data_ptr_noswap(std::move(larger));
    storage.set_nbytes(needed);
  }
  return tensor;
}

Tensor& set_storage(Tensor& tensor, c10::Storage storage, int64_t offset, at::IntArrayRef size,
                    at::IntArrayRef stride) {
  auto* known = tensor.unsafeGetTensorImpl();
  known->set_storage_keep_dtype(std::move(storage));
  known->set_storage_offset(offset);
  known->set_sizes_and_strides(size, stride);
  return tensor;
}

Tensor as_strided(const Tensor& tensor, at::IntArrayRef size, at::IntArrayRef stride,
                  std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(tensor, size, stride, offset);
}

void compute(const c10::OperatorHandle& kernel, torch::jit::Stack* stack) {
  work();
  bool before = computing;
  computing = true;
  try {
    at::native::cpu_fallback(kernel, stack);
  } catch (...) {
    computing = before;
    throw;
  }
  computing = before;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("resize_", &resize);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("as_strided", &as_strided);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&compute>());
}

TORCH_LIBRARY(simulated, m) {
  m.def("open() -> ()", [] { at::RegisterPrivateUse1HooksInterface(new Hooks()); });
  m.def("pace(int nanoseconds) -> ()", [](int64_t nanoseconds) { each_kernel = nanoseconds; });
  m.def("use(int stream) -> ()", [](int64_t stream) { stream_now = static_cast<int>(stream); });
  m.def("reach(int stream) -> int", &reach);
  m.def("hold(int stream, int until) -> ()", &hold);
  m.def("wait(int until) -> ()", &wait);
  m.def("kernels() -> int", [] { return kernels.load(); });
  m.def("allocated() -> int", [] { return allocated.load(); });
  m.def("peak() -> int", [] { return peak.load(); });
  m.def("forget_peak() -> ()", [] { peak = allocated.load(); });
}
