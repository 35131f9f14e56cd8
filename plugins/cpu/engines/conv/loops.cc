#include "cpu/engines/conv/loops.h"

namespace ephost::cpu {

template <typename T>
Kernel conv_loops(const ConvProblem& c, const TensorPtr& original) {
  return [c, original](const Args& args) {
    const Window& w = c.window;
    const T* x = args.in<T>(0);
    const T* weights = original != nullptr ? original->as<T>() : args.in<T>(1);
    const T* bias = c.biased ? args.in<T>(2) : nullptr;
    T* y = args.out<T>(0);
    const size_t rank = w.rank();
    const int64_t channels = c.target[1], inputs = c.source[1];
    const int64_t group_out = channels / c.groups, group_in = inputs / c.groups;
    const int64_t out_size = count(w.out), in_size = count(w.in), taps = count(w.kernel);
    parallel_for(c.target[0] * channels * out_size, 64, [&](int64_t i, int64_t end) {
      std::vector<int64_t> at(rank), tap(rank);
      for (; i < end; ++i) {
        int64_t rest = i % out_size;
        const int64_t channel = i / out_size % channels, batch = i / out_size / channels;
        for (size_t d = rank; d-- > 0; rest /= w.out[d]) at[d] = rest % w.out[d];
        const int64_t group = channel / group_out;
        T sum = bias == nullptr ? T{} : bias[channel];
        for (int64_t k = 0; k < taps; ++k) {
          rest = k;
          for (size_t d = rank; d-- > 0; rest /= w.kernel[d]) tap[d] = rest % w.kernel[d];
          int64_t from = 0;
          bool inside = true;
          for (size_t d = 0; d < rank && inside; ++d) {
            int64_t position;
            if (c.transposed) {
              position = at[d] + w.begin[d] - tap[d] * w.dilations[d];
              inside = position >= 0 && position % w.strides[d] == 0;
              position /= w.strides[d];
            } else {
              position = at[d] * w.strides[d] - w.begin[d] + tap[d] * w.dilations[d];
            }
            inside = inside && position >= 0 && position < w.in[d];
            from = from * w.in[d] + position;
          }
          if (!inside) {
            continue;
          }
          for (int64_t j = 0; j < group_in; ++j) {
            const int64_t source = group * group_in + j;
            const int64_t weight =
                c.transposed ? source * group_out + channel % group_out : channel * group_in + j;
            sum += x[(batch * inputs + source) * in_size + from] * weights[weight * taps + k];
          }
        }
        y[i] = sum;
      }
    });
  };
}

template Kernel conv_loops<float>(const ConvProblem&, const TensorPtr&);
template Kernel conv_loops<double>(const ConvProblem&, const TensorPtr&);

}  // namespace ephost::cpu
