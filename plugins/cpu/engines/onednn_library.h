// oneDNN's headers, with functions that are looked up when they are first called: what runs no kernel of
// oneDNN does not load its library, whose constructors take longer than the opening of a small model.
#ifndef EPHOST_CPU_ENGINES_ONEDNN_LIBRARY_H_
#define EPHOST_CPU_ENGINES_ONEDNN_LIBRARY_H_

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstddef>

namespace ephost::cpu::dnn {

// The function of this name in oneDNN's library, which is loaded now if it is not there yet, and stays.
// Throws Error(ORT_FAIL) with the loader's words if there is none.
void* symbol(const char* name);

template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT: a literal is a name
};

// By the function's type alone: as an argument the function itself would be in the debugger's tables, and the
// linker would ask for it.
template <typename Function, Name kName>
Function function() {
  static const auto found = reinterpret_cast<Function>(symbol(kName.text));
  return found;
}

}  // namespace ephost::cpu::dnn

// Every function of oneDNN's that the plugin calls, also through dnnl.hpp. The linker names one that is
// missing.
#define EPHOST_ONEDNN_FUNCTION(name) (*::ephost::cpu::dnn::function<decltype(&::name), #name>())
#define dnnl_convolution_forward_primitive_desc_create \
  EPHOST_ONEDNN_FUNCTION(dnnl_convolution_forward_primitive_desc_create)
#define dnnl_deconvolution_forward_primitive_desc_create \
  EPHOST_ONEDNN_FUNCTION(dnnl_deconvolution_forward_primitive_desc_create)
#define dnnl_engine_create EPHOST_ONEDNN_FUNCTION(dnnl_engine_create)
#define dnnl_engine_destroy EPHOST_ONEDNN_FUNCTION(dnnl_engine_destroy)
#define dnnl_lrn_forward_primitive_desc_create EPHOST_ONEDNN_FUNCTION(dnnl_lrn_forward_primitive_desc_create)
#define dnnl_memory_create_v2 EPHOST_ONEDNN_FUNCTION(dnnl_memory_create_v2)
#define dnnl_memory_desc_clone EPHOST_ONEDNN_FUNCTION(dnnl_memory_desc_clone)
#define dnnl_memory_desc_create_with_strides EPHOST_ONEDNN_FUNCTION(dnnl_memory_desc_create_with_strides)
#define dnnl_memory_desc_create_with_tag EPHOST_ONEDNN_FUNCTION(dnnl_memory_desc_create_with_tag)
#define dnnl_memory_desc_destroy EPHOST_ONEDNN_FUNCTION(dnnl_memory_desc_destroy)
#define dnnl_memory_desc_equal EPHOST_ONEDNN_FUNCTION(dnnl_memory_desc_equal)
#define dnnl_memory_desc_get_size_v2 EPHOST_ONEDNN_FUNCTION(dnnl_memory_desc_get_size_v2)
#define dnnl_memory_desc_query EPHOST_ONEDNN_FUNCTION(dnnl_memory_desc_query)
#define dnnl_memory_destroy EPHOST_ONEDNN_FUNCTION(dnnl_memory_destroy)
#define dnnl_memory_set_data_handle EPHOST_ONEDNN_FUNCTION(dnnl_memory_set_data_handle)
#define dnnl_pooling_forward_primitive_desc_create \
  EPHOST_ONEDNN_FUNCTION(dnnl_pooling_forward_primitive_desc_create)
#define dnnl_post_ops_append_binary EPHOST_ONEDNN_FUNCTION(dnnl_post_ops_append_binary)
#define dnnl_post_ops_append_eltwise EPHOST_ONEDNN_FUNCTION(dnnl_post_ops_append_eltwise)
#define dnnl_post_ops_create EPHOST_ONEDNN_FUNCTION(dnnl_post_ops_create)
#define dnnl_post_ops_destroy EPHOST_ONEDNN_FUNCTION(dnnl_post_ops_destroy)
#define dnnl_primitive_attr_create EPHOST_ONEDNN_FUNCTION(dnnl_primitive_attr_create)
#define dnnl_primitive_attr_destroy EPHOST_ONEDNN_FUNCTION(dnnl_primitive_attr_destroy)
#define dnnl_primitive_attr_set_post_ops EPHOST_ONEDNN_FUNCTION(dnnl_primitive_attr_set_post_ops)
#define dnnl_primitive_attr_set_scratchpad_mode \
  EPHOST_ONEDNN_FUNCTION(dnnl_primitive_attr_set_scratchpad_mode)
#define dnnl_primitive_create EPHOST_ONEDNN_FUNCTION(dnnl_primitive_create)
#define dnnl_primitive_desc_destroy EPHOST_ONEDNN_FUNCTION(dnnl_primitive_desc_destroy)
#define dnnl_primitive_desc_query EPHOST_ONEDNN_FUNCTION(dnnl_primitive_desc_query)
#define dnnl_primitive_desc_query_md EPHOST_ONEDNN_FUNCTION(dnnl_primitive_desc_query_md)
#define dnnl_primitive_destroy EPHOST_ONEDNN_FUNCTION(dnnl_primitive_destroy)
#define dnnl_primitive_execute EPHOST_ONEDNN_FUNCTION(dnnl_primitive_execute)
#define dnnl_reorder_primitive_desc_create EPHOST_ONEDNN_FUNCTION(dnnl_reorder_primitive_desc_create)
#define dnnl_sgemm EPHOST_ONEDNN_FUNCTION(dnnl_sgemm)
#define dnnl_stream_create EPHOST_ONEDNN_FUNCTION(dnnl_stream_create)
#define dnnl_stream_destroy EPHOST_ONEDNN_FUNCTION(dnnl_stream_destroy)
#define dnnl_stream_wait EPHOST_ONEDNN_FUNCTION(dnnl_stream_wait)

#include <oneapi/dnnl/dnnl.hpp>

#endif
