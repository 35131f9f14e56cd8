/* OrtSharedPrePackedWeightCache: where a kernel leaves the buffers of one packed weight, so that they can
 * outlive it and serve other kernels. Python decides who shares them. */
#include "abi.h"
#include "heap.h"
#include "python.h"
#include "status.h"

struct OrtSharedPrePackedWeightCache {
  OrtAllocator* allocator; /* that the buffers are from; borrowed, outlives the cache */
  void** buffers;          /* owned; NULL where the kernel stored NULL */
  size_t* sizes;
  size_t count;
  bool stored;
};

EphostWeightCache* ephost_weight_cache_new(OrtAllocator* allocator) {
  OrtSharedPrePackedWeightCache* cache = host_calloc(1, sizeof *cache);
  if (cache == NULL) return NULL;
  cache->allocator = allocator;
  handle_count(HANDLE_OTHER, 1);
  return cache;
}

static void free_buffers(OrtAllocator* allocator, void** buffers, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (buffers[i] != NULL) GUARDED(OrtAllocator, Free)(allocator, buffers[i]);
  }
}

void ephost_weight_cache_free(EphostWeightCache* cache) {
  if (cache == NULL) return;
  free_buffers(cache->allocator, cache->buffers, cache->count);
  host_free(cache->buffers);
  host_free(cache->sizes);
  host_free(cache);
  handle_count(HANDLE_OTHER, -1);
}

size_t ephost_weight_cache_buffers(const EphostWeightCache* cache, const void* const** buffers,
                                   const size_t** sizes) {
  *buffers = (const void* const*)cache->buffers;
  *sizes = cache->sizes;
  return cache->count;
}

bool ephost_weight_cache_is_stored(const EphostWeightCache* cache) { return cache->stored; }

/* The buffers are the cache's from here on, also when this fails. */
OrtStatus* ORT_API_CALL SLOT(OrtEpApi, SharedPrePackedWeightCache_StoreWeightData)(
    OrtSharedPrePackedWeightCache* prepacked_weight_cache, void** buffer_data_ptrs, size_t* buffer_data_sizes,
    size_t num_buffers) {
  REQUIRE_ARG(prepacked_weight_cache && buffer_data_ptrs && num_buffers > 0);
  OrtSharedPrePackedWeightCache* cache = prepacked_weight_cache;
  OrtStatus* status = NULL;
  if (buffer_data_sizes == NULL || cache->stored) {
    status = status_new(ORT_INVALID_ARGUMENT, "SharedPrePackedWeightCache_StoreWeightData: %s",
                        cache->stored ? "the packed weight of this call of PrePackWeight is stored already"
                                      : "there are no sizes");
  } else {
    cache->buffers = host_memdup(buffer_data_ptrs, num_buffers * sizeof *buffer_data_ptrs);
    cache->sizes = host_memdup(buffer_data_sizes, num_buffers * sizeof *buffer_data_sizes);
    if (cache->buffers == NULL || cache->sizes == NULL) {
      host_free(cache->buffers);
      host_free(cache->sizes);
      cache->buffers = NULL;
      cache->sizes = NULL;
      status = status_no_memory();
    }
  }
  if (status != NULL) {
    free_buffers(cache->allocator, buffer_data_ptrs, num_buffers);
    return status;
  }
  cache->count = num_buffers;
  cache->stored = true;
  return NULL;
}
