/* The one function of Windows' bcryptprimitives.dll that libraries written in Rust need, for a wine without
 * it. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size); /* RtlGenRandom, in advapi32.dll */

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
  while (size > 0) {
    ULONG part = size > 0x10000000 ? 0x10000000 : (ULONG)size;
    if (!SystemFunction036(data, part)) return FALSE;
    data += part;
    size -= part;
  }
  return TRUE;
}
