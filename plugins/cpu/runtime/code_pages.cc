#include "cpu/runtime/code_pages.h"

#if defined(__linux__)
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#endif

namespace ephost::cpu {

#if defined(__linux__)
namespace {

// Whether the loader has written to the library's read-only parts: they are not the file's any more then.
bool has_text_relocations(const dl_phdr_info& library, const ElfW(Phdr) & dynamic) {
  const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + dynamic.p_vaddr);
  for (; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0)) {
      return true;
    }
  }
  return false;
}

int let_go_of_library(dl_phdr_info* library, size_t /*size*/, void* code) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(code);
  const ElfW(Phdr)* const begin = library->dlpi_phdr;
  const ElfW(Phdr)* const end = begin + library->dlpi_phnum;
  // The program itself has no name: one that has linked us in is not ours to judge.
  const bool named = library->dlpi_name != nullptr && library->dlpi_name[0] != '\0';
  const bool is_meant = std::any_of(begin, end, [&](const ElfW(Phdr) & part) {
    const uintptr_t start = library->dlpi_addr + part.p_vaddr;
    return part.p_type == PT_LOAD && address >= start && address < start + part.p_memsz;
  });
  const bool written = std::any_of(begin, end, [&](const ElfW(Phdr) & part) {
    return part.p_type == PT_DYNAMIC && has_text_relocations(*library, part);
  });
  if (!named || !is_meant || written) {
    return 0;
  }
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const ElfW(Phdr)* part = begin; part != end; ++part) {
    const uintptr_t start = (library->dlpi_addr + part->p_vaddr) / page * page;
    const uintptr_t last = (library->dlpi_addr + part->p_vaddr + part->p_filesz + page - 1) / page * page;
    // Private mappings of a file that nobody has written to: what is read next is read from the file.
    if (part->p_type == PT_LOAD && (part->p_flags & PF_W) == 0 && start < last) {
      ::madvise(reinterpret_cast<void*>(start), last - start, MADV_DONTNEED);
    }
  }
  return 0;
}

}  // namespace

void let_go_of_code(const void* code) { ::dl_iterate_phdr(let_go_of_library, const_cast<void*>(code)); }
#else
void let_go_of_code(const void* /*code*/) {}
#endif

}  // namespace ephost::cpu
