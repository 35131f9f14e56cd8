/* The options of a session on this EP: strings from the host, checked. */
#ifndef EPHOST_CUDA_OPTIONS_H_
#define EPHOST_CUDA_OPTIONS_H_

#include <cuda.h>

#include <cstddef>
#include <string>
#include <vector>

namespace ephost::cuda {

constexpr char kMemoryLimit[] = "memory_limit";          /* bytes, or with K, M, G, T; "0": none */
constexpr char kUserStream[] = "user_compute_stream";    /* the address of a CUstream; "0": none */
constexpr char kSynchronize[] = "synchronize_each_step"; /* "1": errors name the step that made them */
constexpr char kTf32[] = "use_tf32";                     /* "1": float32 products in TF32 */
/* "EXHAUSTIVE": of cuDNN's kernels the one that is quickest when tried, "HEURISTIC": the one that it
 * proposes. */
constexpr char kConvSearch[] = "cudnn_conv_algo_search";

/* "1": the launches of a run that repeats, at the same addresses, are recorded and launched as one. */
constexpr char kGraphs[] = "enable_cuda_graph";

struct OptionDefault {
  const char* key;
  const char* value;
};

/* All options with their defaults. */
const std::vector<OptionDefault>& option_defaults();

struct Options {
  size_t memory_limit = 0;
  CUstream user_stream = nullptr;
  bool synchronize_each_step = false;
  bool use_tf32 = false;
  bool tries_convolutions = true;
  bool records = true;

  /* Sets one; throws Error (ORT_INVALID_ARGUMENT) for an unknown key or a value that it does not take. */
  void set(const std::string& key, const std::string& value);
};

/* These throw an Error that names the key. */
size_t read_size(const char* key, const std::string& text);
CUstream read_stream(const std::string& text);
bool read_switch(const char* key, const std::string& text);

}  // namespace ephost::cuda

#endif
