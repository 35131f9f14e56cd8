// Resize and Upsample: each axis by itself, by a table that says for each output position which input
// positions it is made of.
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "cpu/engines/resample.h"
#include "cpu/engines/strided.h"

namespace ephost::cpu {
namespace {

// ---- What is asked for

// Along one axis that is resized: each has an entry in tables, which would take gigabytes.
constexpr int64_t kMostPlaces = int64_t{1} << 28;
constexpr const char* kTooLong = "an axis becomes longer than the tables of places can be";

struct Axis {
  size_t axis = 0;
  int64_t in = 1, out = 1;
  double scale = 1;
  double roi_begin = 0, roi_end = 1;
};

struct Request {
  std::string mode = "nearest", coordinates = "asymmetric", rounding = "floor";
  bool antialias = false, exclude_outside = false;
  float cubic = -0.75f, extrapolation = 0;
  std::vector<Axis> axes;  // Those that change.
  Dims to;
};

// The float that a node's attribute of scales or input of them holds, as the standard computes with it.
std::vector<double> scales_of(Prepare& p, int input) {
  const std::vector<float> scales = p.floats(input);
  return {scales.begin(), scales.end()};
}

Request read(Prepare& p) {
  const Node& node = p.node;
  const Dims& from = p.dims(0);
  Request r;
  r.mode = node.s("mode", "nearest");
  std::vector<double> scales;
  Ints sizes;
  std::vector<float> roi;
  Ints named(from.size());
  std::iota(named.begin(), named.end(), 0);
  if (node.type == "Upsample" || node.version < 11) {
    r.rounding = "away from what is left out";
    if (node.type == "Upsample" && node.version < 9) {
      const std::vector<float> attribute = node.floats("scales");
      scales.assign(attribute.begin(), attribute.end());
    } else {
      scales = scales_of(p, 1);
    }
  } else {
    r.coordinates = node.s("coordinate_transformation_mode", "half_pixel");
    r.rounding = node.s("nearest_mode", "round_prefer_floor");
    r.antialias = node.i("antialias", 0) != 0;
    r.exclude_outside = node.i("exclude_outside", 0) != 0;
    r.cubic = node.f("cubic_coeff_a", -0.75f);
    r.extrapolation = node.f("extrapolation_value", 0);
    named = node.ints("axes", named);
    if (p.has(3) && p.in(3).count() > 0) {
      sizes = p.ints(3);
    } else {
      p.expect(p.has(2), "it has neither scales nor sizes");
      scales = scales_of(p, 2);
    }
    if (r.coordinates == "tf_crop_and_resize") {
      p.expect(p.has(1), "tf_crop_and_resize needs a roi");
      roi = p.floats(1);
      p.expect(roi.size() == 2 * named.size(), "the roi does not have two entries for each axis");
    }
  }
  p.expect((sizes.empty() ? scales.size() : sizes.size()) == named.size(),
           "scales or sizes do not have an entry for each axis");

  const std::string policy = sizes.empty() ? "stretch" : node.s("keep_aspect_ratio_policy", "stretch");
  double common = policy == "not_larger" ? std::numeric_limits<double>::infinity() : 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double ratio =
        static_cast<double>(sizes[i]) / static_cast<double>(from[p.axis(named[i], from.size())]);
    common = policy == "not_larger" ? std::min(common, ratio) : std::max(common, ratio);
  }
  r.to = from;
  for (size_t i = 0; i < named.size(); ++i) {
    Axis axis;
    axis.axis = p.axis(named[i], from.size());
    axis.in = from[axis.axis];
    const double in = static_cast<double>(axis.in);
    if (sizes.empty()) {
      axis.scale = scales[i];
      p.expect(axis.scale > 0, "a scale is not positive");
      axis.out = axis.in;
      if (axis.scale != 1) {
        // Exporters count on floats: 10 times 1.3 is 13, and a little less in a wider type.
        const float made = std::floor(static_cast<float>(in) * static_cast<float>(axis.scale));
        p.expect(made < static_cast<float>(kMostPlaces), kTooLong);
        axis.out = static_cast<int64_t>(made);
      }
    } else if (policy == "stretch") {
      axis.out = sizes[i];
      axis.scale = static_cast<double>(axis.out) / in;
    } else {
      axis.scale = common;
      axis.out = static_cast<int64_t>(std::floor(in * common + 0.5));
    }
    p.expect(axis.out >= 0 && (axis.out == 0 || axis.in > 0), "an axis without elements cannot grow");
    if (!roi.empty()) {
      axis.roi_begin = roi[i];
      axis.roi_end = roi[i + named.size()];
    }
    r.to[axis.axis] = axis.out;
    if (axis.in != axis.out || axis.scale != 1 || axis.roi_begin != 0 || axis.roi_end != 1) {
      p.expect(axis.out < kMostPlaces, kTooLong);
      r.axes.push_back(axis);
    }
  }
  return r;
}

// ---- Tables

// The place in the input, between its elements, of each output element, computed in Real.
template <typename Real>
std::vector<Real> places(const Request& r, const Axis& axis) {
  std::vector<Real> all(static_cast<size_t>(axis.out));
  constexpr Real kHalf = Real{1} / 2;
  const Real in = static_cast<Real>(axis.in), scale = static_cast<Real>(axis.scale), out = scale * in;
  const std::string& mode = r.coordinates;
  for (size_t i = 0; i < all.size(); ++i) {
    const Real x = static_cast<Real>(i);
    Real& at = all[i];
    if (mode == "align_corners") {
      at = out == 1 ? 0 : x * (in - 1) / (out - 1);
    } else if (mode == "asymmetric") {
      at = x / scale;
    } else if (mode == "tf_crop_and_resize") {
      const Real begin = static_cast<Real>(axis.roi_begin);
      const Real width = (static_cast<Real>(axis.roi_end) - begin) * (in - 1);
      at = (out == 1 ? width / 2 : x * width / (out - 1)) + begin * (in - 1);
    } else if (mode == "tf_half_pixel_for_nn") {
      at = (x + kHalf) / scale;
    } else if (mode == "pytorch_half_pixel" && axis.out == 1) {
      at = 0;
    } else {
      at = (x + kHalf) / scale - kHalf;
      if (mode == "half_pixel_symmetric") {
        at += in / 2 * (1 - static_cast<Real>(axis.out) / out);
      }
    }
  }
  return all;
}

std::vector<int64_t> nearest(const Request& r, const Axis& axis) {
  std::vector<int64_t> all;
  // In floats, as exporters do: 17 by 1.7 is the tenth element, and a little before it in a wider type. What
  // is half-way but for rounding is half-way.
  constexpr float kRounding = 1e-6f;
  for (float at : places<float>(r, axis)) {
    const float down = std::floor(at);
    float near = down;
    // Before opset 11 the elements of a smaller output are those on the right, as in the standard's example.
    const bool skips = r.rounding == "away from what is left out" && axis.scale < 1;
    if (r.rounding == "ceil" || skips) {
      near = std::ceil(at);
    } else if (r.rounding == "round_prefer_floor") {
      near = at - down > 0.5f + kRounding ? down + 1 : down;
    } else if (r.rounding == "round_prefer_ceil") {
      near = at - down >= 0.5f - kRounding ? down + 1 : down;
    }
    all.push_back(std::clamp<int64_t>(static_cast<int64_t>(near), 0, axis.in - 1));
  }
  return all;
}

double cubic_weight(double x, double a) {
  x = std::abs(x);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

Taps taps_of(const Request& r, const Axis& axis) {
  Taps taps;
  taps.in = axis.in;
  taps.out = axis.out;
  const std::vector<double> at = places<double>(r, axis);
  if (r.coordinates == "tf_crop_and_resize") {
    bool any = false;
    for (double x : at) {
      taps.outside.push_back(x < 0 || x > static_cast<double>(axis.in - 1));
      any = any || taps.outside.back();
    }
    if (!any) taps.outside.clear();
  }
  if (r.mode == "nearest") {
    taps.first = nearest(r, axis);
    taps.count.assign(taps.first.size(), 1);
    taps.weight.assign(taps.first.size(), 1);
    return taps;
  }
  // Against aliasing the kernel is as wide as an output element is in the input.
  const double reach = r.mode == "linear" ? 1 : 2, shrink = r.antialias ? std::min(axis.scale, 1.0) : 1;
  const int64_t begin = static_cast<int64_t>(std::floor(-reach / shrink)) + 1, width = 2 - 2 * begin;
  taps.width = std::min(width, axis.in);
  taps.weight.assign(static_cast<size_t>(taps.width * axis.out), 0);
  std::vector<double> weights(static_cast<size_t>(width));
  for (size_t place = 0; place < at.size(); ++place) {
    const double x = at[place];
    const int64_t left = static_cast<int64_t>(std::ceil(x)) - 1 + begin;  // x itself is one on the right.
    double sum = 0;
    for (int64_t k = 0; k < width; ++k) {
      const double distance = (static_cast<double>(left + k) - x) * shrink;
      double& weight = weights[static_cast<size_t>(k)];
      weight = r.mode == "linear" ? std::max(0.0, 1 - std::abs(distance)) : cubic_weight(distance, r.cubic);
      if (r.exclude_outside && (left + k < 0 || left + k >= axis.in)) weight = 0;
      sum += weight;
    }
    // What lies outside of the input is the element at its end. Zeros at the ends are left out.
    int64_t first = std::clamp<int64_t>(left, 0, axis.in - 1);
    double* const to = &taps.weight[place * static_cast<size_t>(taps.width)];
    for (int64_t k = 0; k < width; ++k) {
      const double weight = weights[static_cast<size_t>(k)];
      to[std::clamp<int64_t>(left + k, 0, axis.in - 1) - first] += sum == 0 ? weight : weight / sum;
    }
    int64_t zeros = 0, end = taps.width;
    while (end > 1 && to[end - 1] == 0) --end;
    while (zeros + 1 < end && to[zeros] == 0) ++zeros;
    std::copy(to + zeros, to + end, to);
    std::fill(to + end - zeros, to + taps.width, 0);
    taps.first.push_back(first + zeros);
    taps.count.push_back(end - zeros);
  }
  return taps;
}

// ---- Nearest: nothing is computed, so elements are moved by size

// Positions along the resized axes, with what lies inside of them as one cell.
struct NearestCopy {
  std::vector<std::vector<int64_t>> outer;  // Input offsets along each axis before the last resized one,
  std::vector<int64_t> columns;             // and along that one; in bytes.
  int64_t cell = 1;
  bool doubled = false;  // Each column is copied twice.

  NearestCopy(size_t size, const Dims& stored,
              const std::vector<std::pair<size_t, std::vector<int64_t>>>& maps) {
    const Dims strides = strides_of(stored);
    const size_t last = maps.back().first;
    const int64_t bytes = static_cast<int64_t>(size);
    cell = strides[last] * bytes;
    for (size_t d = 0; d <= last; ++d) {
      std::vector<int64_t> table(static_cast<size_t>(stored[d]));
      std::iota(table.begin(), table.end(), 0);
      for (const auto& [axis, map] : maps) {
        if (axis == d) table = map;
      }
      for (int64_t& entry : table) entry *= strides[d] * bytes;
      if (d == last) {
        columns = std::move(table);
        doubled = columns.size() % 2 == 0;
        for (size_t i = 0; i < columns.size(); ++i) {
          doubled = doubled && columns[i] == static_cast<int64_t>(i / 2) * cell;
        }
      } else {
        outer.push_back(std::move(table));
      }
    }
  }

  int64_t rows() const {
    int64_t all = 1;
    for (const auto& table : outer) all *= static_cast<int64_t>(table.size());
    return all;
  }

  void operator()(const char* in, char* out) const {
    const int64_t n = static_cast<int64_t>(columns.size()), line = n * cell;
    parallel_for(rows(), 1 + 4 * kGrain / (line + 1), [&](int64_t begin, int64_t end) {
      const char* before = nullptr;
      for (int64_t row = begin; row < end; ++row) {
        const char* from = in;
        int64_t rest = row;
        for (size_t d = outer.size(); d-- > 0;) {
          const std::vector<int64_t>& table = outer[d];
          from += table[static_cast<size_t>(rest % static_cast<int64_t>(table.size()))];
          rest /= static_cast<int64_t>(table.size());
        }
        char* to = out + row * line;
        if (from == before) {
          std::memcpy(to, to - line, static_cast<size_t>(line));
          continue;
        }
        before = from;
        switch (cell) {
          case 1:
            doubled ? twice<uint8_t>(from, to, n) : gather<1>(from, to, n);
            break;
          case 2:
            doubled ? twice<uint16_t>(from, to, n) : gather<2>(from, to, n);
            break;
          case 4:
            doubled ? twice<uint32_t>(from, to, n) : gather<4>(from, to, n);
            break;
          case 32:
            gather<32>(from, to, n);
            break;
          case 64:
            gather<64>(from, to, n);
            break;
          default:
            for (int64_t c = 0; c < n; ++c) {
              std::memcpy(to + c * cell, from + columns[static_cast<size_t>(c)], static_cast<size_t>(cell));
            }
        }
      }
    });
  }

  template <typename T>
  static void twice(const char* from, char* to, int64_t n) {
    const T* x = reinterpret_cast<const T*>(from);
    T* __restrict y = reinterpret_cast<T*>(to);
    for (int64_t c = 0; c < n / 2; ++c) y[2 * c] = y[2 * c + 1] = x[c];
  }

  template <size_t kCell>
  void gather(const char* from, char* to, int64_t n) const {
    const int64_t* at = columns.data();
    for (int64_t c = 0; c < n; ++c) {
      std::memcpy(to + static_cast<size_t>(c) * kCell, from + at[c], kCell);
    }
  }
};

Kernel resize(Prepare& p) {
  const Request r = read(p);
  const bool spatial =
      std::all_of(r.axes.begin(), r.axes.end(), [](const Axis& axis) { return axis.axis >= 2; });
  const Desc in = p.require(0, spatial ? p.in(0).layout : Layout::kPlain);
  const Desc out = p.out(0, in.type, r.to, in.layout);
  if (r.axes.empty()) {
    p.alias(0, 0);
    return nullptr;
  }
  if (out.count() == 0) {
    return [](const Args&) {};
  }
  std::vector<Axis> axes = r.axes;
  for (Axis& axis : axes) axis.axis = stored_axis(in, axis.axis);
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.axis < b.axis; });
  std::vector<std::pair<size_t, Taps>> taps;
  bool inside = true;
  for (const Axis& axis : axes) {
    taps.emplace_back(axis.axis, taps_of(r, axis));
    inside = inside && taps.back().second.outside.empty();
  }
  if (r.mode == "nearest" && inside) {
    std::vector<std::pair<size_t, std::vector<int64_t>>> maps;
    for (auto& [axis, each] : taps) maps.emplace_back(axis, std::move(each.first));
    return [copy = NearestCopy(size_of(in.type), stored_dims(in), maps)](const Args& args) {
      copy(args.in<char>(0), args.out<char>());
    };
  }
  return resample(p, in, taps, r.extrapolation, r.antialias);
}

std::string modes_are_known(const Node& node) {
  const std::string mode = node.s("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic") {
    return "mode '" + mode + "'";
  }
  return "";
}

}  // namespace

const Registration registration([](Registry* registry) {
  for (const char* type : {"Resize", "Upsample"}) {
    registry->add({.type = type, .supports = modes_are_known, .prepare = resize, .any_layout = true});
  }
});

}  // namespace ephost::cpu
