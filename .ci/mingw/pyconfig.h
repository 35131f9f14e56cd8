/* What CPython's headers ask about the system, for Windows on x86-64: as much as its limited API needs. */
#ifndef EPHOST_PYCONFIG_H_
#define EPHOST_PYCONFIG_H_

#define MS_WINDOWS 1
#define MS_WIN32 1
#define MS_WIN64 1
#define HAVE_DECLSPEC_DLL 1
#define Py_ENABLE_SHARED 1 /* Python is a DLL: its data are imported */
#define HAVE_STDINT_H 1
#define HAVE_WCHAR_H 1

#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_OFF_T 4
#define SIZEOF_TIME_T 8
#define SIZEOF_WCHAR_T 2
#define ALIGNOF_LONG 4
#define ALIGNOF_SIZE_T 8

#endif
