/* Sequences and maps. */
#include "abi.h"
#include "heap.h"
#include "memory.h"
#include "python.h"
#include "status.h"
#include "value.h"

/* What lies before the items. */
typedef struct ItemsHeader {
  atomic_size_t references;
  size_t capacity;
} ItemsHeader;

static ItemsHeader* header_of(OrtValue* const* items) { return (ItemsHeader*)(void*)items - 1; }

static size_t items_nbytes(size_t capacity) { return sizeof(ItemsHeader) + capacity * sizeof(OrtValue*); }

OrtValue** items_new(size_t count) {
  if (count > (SIZE_MAX - sizeof(ItemsHeader)) / sizeof(OrtValue*)) return NULL;
  ItemsHeader* header = host_calloc(1, items_nbytes(count));
  if (header == NULL) return NULL;
  atomic_init(&header->references, 1);
  header->capacity = count;
  return (OrtValue**)(void*)(header + 1);
}

bool items_are_shared(OrtValue* const* items) { return atomic_load(&header_of(items)->references) > 1; }

OrtValue** items_grow(OrtValue** items, size_t count) {
  ItemsHeader* header = header_of(items);
  if (count <= header->capacity) return items;
  /* Twice as many: a sequence that grows by one element after another is moved a few times alone. */
  const size_t capacity = count / 2 < header->capacity ? header->capacity * 2 : count;
  if (capacity > (SIZE_MAX - sizeof(ItemsHeader)) / sizeof(OrtValue*)) return NULL;
  header = host_realloc(header, items_nbytes(capacity));
  if (header == NULL) return NULL;
  header->capacity = capacity;
  return (OrtValue**)(void*)(header + 1);
}

/* Relaxed: who takes a share has one, or holds what has. */
void items_retain(OrtValue** items) {
  atomic_fetch_add_explicit(&header_of(items)->references, 1, memory_order_relaxed);
}

void items_release(OrtValue** items, size_t count) {
  if (items == NULL ||
      atomic_fetch_sub_explicit(&header_of(items)->references, 1, memory_order_acq_rel) != 1) {
    return;
  }
  for (size_t i = 0; i < count; i++) SLOT(OrtApi, ReleaseValue)(items[i]);
  host_free(header_of(items));
}

bool value_init_items(OrtValue* value, ONNXType type, ONNXTensorElementDataType element_type,
                      const OrtValue* const* items, size_t count) {
  OrtValue** copies = items_new(count);
  if (copies == NULL) return false;
  for (size_t i = 0; i < count; i++) {
    copies[i] = value_new();
    if (copies[i] == NULL) goto failed;
    if (value_share(copies[i], items[i])) continue;
    /* what borrows its data can't be shared; on the CPU it can be copied */
    if (items[i]->type != ONNX_TYPE_TENSOR || items[i]->buffer != NULL ||
        !value_copy(copies[i], items[i], NULL)) {
      goto failed;
    }
  }
  value->type = type;
  value->element_type = element_type;
  value->items = copies;
  value->item_count = count;
  return true;
failed:
  items_release(copies, count);
  return false;
}

size_t value_item_count(const OrtValue* value) {
  return value->is_zipped ? (size_t)value->items[1]->dims[0] : value->item_count;
}

bool value_unzip(OrtValue* map, const OrtValue* sequence, size_t index) {
  const OrtValue *keys = sequence->items[0], *values = sequence->items[1];
  OrtValue row = {0};
  const int64_t width = values->dims[1];
  const size_t nbytes = (size_t)width * (element_type_bits(values->element_type) / 8);
  if (!value_init_tensor(&row, values->element_type, &width, 1, values->buffer, NULL, values->memory_info))
    return false;
  row.data = (char*)values->data + index * nbytes;
  const OrtValue* parts[] = {keys, &row};
  return value_init_items(map, ONNX_TYPE_MAP, keys->element_type, parts, 2);
}

/* A sequence's elements are of one type. */
static OrtStatus* check_sequence(const OrtValue* const* items, size_t count) {
  for (size_t i = 0; i < count; i++) {
    REQUIRE_ARG(items[i] != NULL);
    REQUIRE_ARG(items[i]->type == ONNX_TYPE_TENSOR || items[i]->type == ONNX_TYPE_MAP ||
                items[i]->type == ONNX_TYPE_SEQUENCE);
    if (items[i]->type != items[0]->type || items[i]->element_type != items[0]->element_type) {
      return status_new(ORT_INVALID_ARGUMENT, "element %zu of the sequence is of another type than its first",
                        i);
    }
  }
  return NULL;
}

/* A map is two tensors of rank 1 and equal length: keys (integers or strings) and values. */
static OrtStatus* check_map(const OrtValue* const* items, size_t count) {
  REQUIRE_ARG(count == 2);
  REQUIRE_ARG(items[0] != NULL && items[0]->type == ONNX_TYPE_TENSOR && items[0]->rank == 1);
  REQUIRE_ARG(items[1] != NULL && items[1]->type == ONNX_TYPE_TENSOR && items[1]->rank == 1);
  REQUIRE_ARG(items[0]->element_count == items[1]->element_count);
  switch (items[0]->element_type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING:
      return NULL;
    default:
      return status_new(ORT_INVALID_ARGUMENT, "a map's keys are integers or strings, not of element type %d",
                        (int)items[0]->element_type);
  }
}

static OrtStatus* new_container(ONNXType type, ONNXTensorElementDataType element_type,
                                const OrtValue* const* items, size_t count, OrtValue** out) {
  OrtStatus* status = type == ONNX_TYPE_MAP ? check_map(items, count) : check_sequence(items, count);
  if (status != NULL) return status;
  OrtValue* value = value_new();
  if (value == NULL) return status_no_memory();
  if (!value_init_items(value, type, element_type, items, count)) {
    SLOT(OrtApi, ReleaseValue)(value);
    return status_new(ORT_FAIL, "an item borrows device memory, or there is no memory for the container");
  }
  *out = value;
  return NULL;
}

/* Shares the data of what is given where somebody holds it, and copies what is borrowed. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, CreateValue)(const OrtValue* const* in, size_t num_values,
                                                  enum ONNXType value_type, OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(in != NULL && num_values > 0 && in[0] != NULL);
  REQUIRE_ARG(value_type == ONNX_TYPE_SEQUENCE || value_type == ONNX_TYPE_MAP);
  return new_container(value_type, in[0]->element_type, in, num_values, out);
}

/* Of a sequence its length; of a map 2, keys and values. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetValueCount)(const OrtValue* value, size_t* out) {
  REQUIRE_ARG(out != NULL);
  *out = 0;
  REQUIRE_ARG(value != NULL);
  REQUIRE_ARG(value->type == ONNX_TYPE_SEQUENCE || value->type == ONNX_TYPE_MAP);
  *out = value_item_count(value);
  return NULL;
}

/* A tensor on the CPU is copied into the allocator's memory, so that what the caller does to it stays with
 * the caller; anything else is shared. */
OrtStatus* ORT_API_CALL SLOT(OrtApi, GetValue)(const OrtValue* value, int index, OrtAllocator* allocator,
                                               OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(value != NULL && allocator != NULL);
  REQUIRE_ARG(allocator->Alloc != NULL && allocator->Free != NULL && allocator->Info != NULL);
  REQUIRE_ARG(value->type == ONNX_TYPE_SEQUENCE || value->type == ONNX_TYPE_MAP);
  if (index < 0 || (size_t)index >= value_item_count(value)) {
    return status_new(ORT_INVALID_ARGUMENT, "GetValue: there is no item %d among %zu", index,
                      value_item_count(value));
  }
  if (value->is_zipped) {
    *out = value_new();
    if (*out == NULL) return status_no_memory();
    if (value_unzip(*out, value, (size_t)index)) return NULL;
    SLOT(OrtApi, ReleaseValue)(*out);
    *out = NULL;
    return status_no_memory();
  }
  const OrtValue* item = value->items[index];
  bool on_device = item->type == ONNX_TYPE_TENSOR && !memory_info_is_cpu(item->memory_info);
  OrtValue* copy = value_new();
  if (copy == NULL) return status_no_memory();
  if (!(on_device ? value_share(copy, item) : value_copy(copy, item, allocator))) {
    SLOT(OrtApi, ReleaseValue)(copy);
    return status_new(ORT_FAIL, "GetValue: no memory, or the allocator's is not the CPU's");
  }
  *out = copy;
  return NULL;
}

/* ---- for Python ---------------------------------------------------------------------------------------- */

OrtStatus* ephost_value_sequence(OrtValue* const* items, size_t count, int element_type, OrtValue** out) {
  REQUIRE_ARG(out != NULL);
  *out = NULL;
  REQUIRE_ARG(items != NULL || count == 0);
  ONNXTensorElementDataType type = (ONNXTensorElementDataType)element_type;
  for (size_t i = 0; i < count; i++) REQUIRE_ARG(items[i] != NULL && items[i]->element_type == type);
  return new_container(ONNX_TYPE_SEQUENCE, type, (const OrtValue* const*)items, count, out);
}

const OrtValue* ephost_value_item(const OrtValue* value, size_t index) {
  return value != NULL && !value->is_zipped && index < value->item_count ? value->items[index] : NULL;
}
