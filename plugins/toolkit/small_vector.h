// A vector that keeps its first elements inside itself: no allocation for the few that most have.
#ifndef EPHOST_TOOLKIT_SMALL_VECTOR_H_
#define EPHOST_TOOLKIT_SMALL_VECTOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace ephost {

// Of elements that are copied byte by byte. Members are std::vector's, and mean the same; moved from, it is
// empty.
template <typename T, size_t kInside>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  using value_type = T;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using iterator = T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  SmallVector() : data_(inside()) {}
  explicit SmallVector(size_t size, const T& value = T()) : SmallVector() { resize(size, value); }
  SmallVector(std::initializer_list<T> values) : SmallVector() { append(values.begin(), values.size()); }
  SmallVector(const std::vector<T>& values) : SmallVector() { append(values.data(), values.size()); }
  template <typename It, typename = typename std::iterator_traits<It>::iterator_category>
  SmallVector(It first, It last) : SmallVector() {
    assign(first, last);
  }
  SmallVector(const SmallVector& other) : SmallVector() { append(other.data_, other.size_); }
  SmallVector(SmallVector&& other) noexcept : SmallVector() { take(&other); }
  ~SmallVector() { release(); }

  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) {
      size_ = 0;
      append(other.data_, other.size_);
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) {
      release();
      data_ = inside();
      size_ = 0;
      capacity_ = kInside;
      take(&other);
    }
    return *this;
  }
  SmallVector& operator=(std::initializer_list<T> values) {
    size_ = 0;
    append(values.begin(), values.size());
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t capacity() const { return capacity_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  const T* begin() const { return data_; }
  T* end() { return data_ + size_; }
  const T* end() const { return data_ + size_; }
  reverse_iterator rbegin() { return reverse_iterator(end()); }
  const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
  reverse_iterator rend() { return reverse_iterator(begin()); }
  const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
  T& operator[](size_t at) { return data_[at]; }
  const T& operator[](size_t at) const { return data_[at]; }
  T& at(size_t at) { return data_[checked(at)]; }
  const T& at(size_t at) const { return data_[checked(at)]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void reserve(size_t capacity) {
    if (capacity > capacity_) grow(capacity);
  }
  void clear() { size_ = 0; }
  void resize(size_t size, const T& value = T()) {
    const T filler = value;  // It may be one of ours.
    reserve(size);
    for (size_t i = size_; i < size; ++i) data_[i] = filler;
    size_ = static_cast<uint32_t>(size);
  }
  void push_back(const T& value) {
    const T pushed = value;
    if (size_ == capacity_) grow(size_ + size_t{1});
    data_[size_++] = pushed;
  }
  template <typename... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    push_back(T(std::forward<Arguments>(arguments)...));
    return back();
  }
  void pop_back() { --size_; }
  void assign(size_t size, const T& value) {
    const T filler = value;
    size_ = 0;
    resize(size, filler);
  }
  // Not of a part of this vector, as with std::vector.
  template <typename It, typename = typename std::iterator_traits<It>::iterator_category>
  void assign(It first, It last) {
    size_ = 0;
    reserve(static_cast<size_t>(std::distance(first, last)));
    for (; first != last; ++first) data_[size_++] = static_cast<T>(*first);
  }
  T* insert(const T* where, const T& value) {
    const T inserted = value;
    T* made = open(where, 1);
    *made = inserted;
    return made;
  }
  T* insert(const T* where, size_t count, const T& value) {
    const T inserted = value;
    T* made = open(where, count);
    std::fill(made, made + count, inserted);
    return made;
  }
  template <typename It, typename = typename std::iterator_traits<It>::iterator_category>
  T* insert(const T* where, It first, It last) {
    T* made = open(where, static_cast<size_t>(std::distance(first, last)));
    for (T* to = made; first != last; ++first, ++to) *to = static_cast<T>(*first);
    return made;
  }
  T* erase(const T* where) { return erase(where, where + 1); }
  T* erase(const T* first, const T* last) {
    T* to = data_ + (first - data_);
    std::copy(last, static_cast<const T*>(end()), to);
    size_ -= static_cast<uint32_t>(last - first);
    return to;
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }
  friend bool operator!=(const SmallVector& a, const SmallVector& b) { return !(a == b); }
  friend bool operator<(const SmallVector& a, const SmallVector& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inside() { return reinterpret_cast<T*>(inside_); }
  void release() {
    if (data_ != inside()) std::allocator<T>().deallocate(data_, capacity_);
  }
  size_t checked(size_t at) const {
    if (at >= size_) throw std::out_of_range("SmallVector::at");
    return at;
  }
  void append(const T* values, size_t count) {
    reserve(size_ + count);
    if (count > 0) std::memcpy(static_cast<void*>(data_ + size_), values, count * sizeof(T));
    size_ += static_cast<uint32_t>(count);
  }
  void grow(size_t capacity) {
    capacity = std::max<size_t>(capacity, 2 * size_t{capacity_});
    if (capacity > UINT32_MAX) throw std::length_error("SmallVector");
    T* larger = std::allocator<T>().allocate(capacity);
    if (size_ > 0) std::memcpy(static_cast<void*>(larger), data_, size_ * sizeof(T));
    release();
    data_ = larger;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  // Room for so many elements in front of this place.
  T* open(const T* where, size_t count) {
    const size_t at = static_cast<size_t>(where - data_), behind = size_ - at;
    reserve(size_ + count);
    if (behind > 0) std::memmove(static_cast<void*>(data_ + at + count), data_ + at, behind * sizeof(T));
    size_ += static_cast<uint32_t>(count);
    return data_ + at;
  }
  // Of an empty vector with nothing outside: what another one has.
  void take(SmallVector* other) noexcept {
    if (other->data_ == other->inside()) {
      std::memcpy(inside_, other->inside_, other->size_ * sizeof(T));
    } else {
      data_ = other->data_;
      capacity_ = other->capacity_;
      other->data_ = other->inside();
      other->capacity_ = kInside;
    }
    size_ = std::exchange(other->size_, 0);
  }

  T* data_;
  uint32_t size_ = 0;
  uint32_t capacity_ = kInside;
  alignas(T) unsigned char inside_[kInside * sizeof(T)];
};

}  // namespace ephost

#endif
