#include "cuda/options.h"

#include "cuda/pool_account.h"
#include "toolkit/api.h"

namespace ephost::cuda {

const std::vector<OptionDefault>& option_defaults() {
  static const std::vector<OptionDefault> kDefaults = {{kMemoryLimit, "0"}, {kSynchronize, "0"},
                                                       {kTf32, "0"},        {kConvSearch, "EXHAUSTIVE"},
                                                       {kGraphs, "1"},      {kUserStream, "0"}};
  return kDefaults;
}

size_t read_size(const char* key, const std::string& text) {
  size_t bytes = 0;
  if (!parse_size(text, &bytes)) {
    invalid(std::string("cuda: the option ") + key +
            " is a number of bytes, such as 1073741824, 512M or 8G, not '" + text + "'");
  }
  return bytes;
}

CUstream read_stream(const std::string& text) {
  size_t value = 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || !parse_size(text, &value)) {
    invalid(std::string("cuda: the option ") + kUserStream +
            " is the address of a CUDA stream, in decimal, not '" + text + "'");
  }
  return reinterpret_cast<CUstream>(value);
}

bool read_switch(const char* key, const std::string& text) {
  if (text != "0" && text != "1") {
    invalid(std::string("cuda: the option ") + key + " is 0 or 1, not '" + text + "'");
  }
  return text == "1";
}

void Options::set(const std::string& key, const std::string& value) {
  if (key == kMemoryLimit) {
    memory_limit = read_size(kMemoryLimit, value);
  } else if (key == kUserStream) {
    user_stream = read_stream(value);
  } else if (key == kSynchronize) {
    synchronize_each_step = read_switch(kSynchronize, value);
  } else if (key == kTf32) {
    use_tf32 = read_switch(kTf32, value);
  } else if (key == kGraphs) {
    records = read_switch(kGraphs, value);
  } else if (key == kConvSearch) {
    if (value != "EXHAUSTIVE" && value != "HEURISTIC") {
      invalid(std::string("cuda: the option ") + kConvSearch + " is EXHAUSTIVE or HEURISTIC, not '" + value +
              "'");
    }
    tries_convolutions = value == "EXHAUSTIVE";
  } else {
    invalid("cuda: there is no option '" + key + "'");
  }
}

}  // namespace ephost::cuda
